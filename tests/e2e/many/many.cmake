# Many connections at once, also under the thread sanitizer.
ration_e2e_test(e2e_many many/many_test.py BASIC)

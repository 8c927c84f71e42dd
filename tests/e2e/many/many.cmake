# Many connections at once; tsan looks on.
ration_e2e_test(e2e_many many/many_test.py BASIC)

# Every command over the Redis protocol; for commands that Redis has, redis-server is the reference.
find_program(REDIS_SERVER redis-server REQUIRED)
ration_e2e_test(e2e_resp resp/resp_test.py BASIC)
ration_e2e_test(e2e_resp_redis resp/resp_redis_test.py BASIC)
ration_e2e_test(e2e_resp_order resp/resp_order_test.py BASIC)
ration_e2e_test(e2e_resp_reload resp/resp_reload_test.py BASIC)

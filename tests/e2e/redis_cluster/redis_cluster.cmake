# Limits in a Redis Cluster, and behind Sentinel. The tests start the servers on loopback.
find_program(REDIS_SERVER redis-server)
if(REDIS_SERVER)
    ration_e2e_test(e2e_redis_cluster redis_cluster/cluster_test.py TIMEOUT 150
        ARGUMENTS $<TARGET_FILE:redis_library_test>)
    if(NOT RATION_SANITIZE) # sentinels are slow, and the code is covered by the cluster test
        ration_e2e_test(e2e_redis_sentinel redis_cluster/sentinel_test.py TIMEOUT 120
            ARGUMENTS $<TARGET_FILE:redis_library_test>)
    endif()
endif()

# Limits in a Redis Cluster, and behind Sentinel. Servers of their own, on loopback.
find_program(REDIS_SERVER redis-server)
if(REDIS_SERVER)
    ration_e2e_test(e2e_redis_cluster redis_cluster/cluster_test.py TIMEOUT 150
        ARGUMENTS $<TARGET_FILE:redis_library_test>)
    if(NOT RATION_SANITIZE) # sentinels take their time, and the routes are those of the cluster
        ration_e2e_test(e2e_redis_sentinel redis_cluster/sentinel_test.py TIMEOUT 120
            ARGUMENTS $<TARGET_FILE:redis_library_test>)
    endif()
endif()

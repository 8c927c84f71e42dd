# Behind nginx, Caddy and HAProxy, with the configurations in examples/proxies.

ration_e2e_test(e2e_forwarded proxies/forwarded_test.py BASIC)
foreach(proxy nginx nginx403 caddy caddyshort haproxy haproxyclosed)
    ration_e2e_test(e2e_proxy_${proxy} proxies/proxies_test.py ARGUMENTS ${proxy})
endforeach()

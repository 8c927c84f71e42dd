# The metrics that Prometheus reads and Grafana shows.

ration_e2e_test(e2e_metrics metrics/metrics_test.py BASIC)
ration_e2e_test(e2e_prometheus metrics/prometheus_test.py)

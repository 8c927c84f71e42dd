# The HTTP API, compared with docs/openapi.yaml.
ration_e2e_test(e2e_http http/http_test.py BASIC ARGUMENTS ${PROJECT_SOURCE_DIR}/docs/openapi.yaml)

"""The names that programs use already, over `tollway.Limiter`: moving over is one import line.

`rate_limiter`: `acquire_token` waits; `get_current_usage`, `get_rpm_limit`.
`token_bucket`: `acquire_token` says whether it may go on; `wait_for_token` waits.
`api_ratelimiter`: `make_client_for`, `DynamicAPIClient`, `DynamicRateLimiter`, `ApiRateConfig`.
"""

"""The workload tuner: whether to speculate on this work and this machine, with what, and what it will bring.

`order.Order` says what is wanted, `order.tuning(order)` is the computation as the engine's thread takes it,
`ladder.Tuner` the search itself, on any `progress.Bench`; `report`, `html`, `compare` and `exports` are what comes of
it.
"""

"""munia on many machines, by Ray: labels of data sets (Ray Data), and the HTTP service (Ray Serve).

    import munia.ray

    rows = munia.ray.classify_dataset("reviews/", "model.munia", column="review", actors=8)
    munia.ray.write_rows(rows, "labelled/")

    ray.serve.run(munia.ray.serve_app("model.munia", replicas=4))

Needs Ray (`pip install munia[ray]`), which the rest of the package does not: one machine is the
default, and one `munia classify` or `munia serve` uses all of it. docs/scale.md tells what to use when.
"""

from munia._ray_data import classify_dataset, read_rows, write_rows
from munia._ray_serve import build_app, serve_app

__all__ = ["build_app", "classify_dataset", "read_rows", "serve_app", "write_rows"]

"""Counters of a server in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter, defaultdict
from threading import Lock

from cge.serve.service import Service

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by operation and status, and how long they took; of one worker process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = defaultdict(float)
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))

    def add(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[operation, status] += 1
            self._seconds[operation] += seconds
            for place, bound in enumerate((*_BUCKETS, float("inf"))):
                self._counts[operation][place] += seconds <= bound

    def text(self, service: Service) -> str:
        """Return all counters."""
        with self._lock:
            requests, seconds = sorted(self._requests.items()), dict(sorted(self._seconds.items()))
            counts = {name: list(values) for name, values in sorted(self._counts.items())}
        lines = ["# HELP cge_requests_total Requests by operation and status.", "# TYPE cge_requests_total counter"]
        lines += [f'cge_requests_total{{operation="{name}",status="{code}"}} {n}' for (name, code), n in requests]
        lines += ["# HELP cge_request_seconds Seconds of requests.", "# TYPE cge_request_seconds histogram"]
        for name, values in counts.items():
            bounds = [*map(str, _BUCKETS), "+Inf"]
            for bound, value in zip(bounds, values, strict=True):
                lines.append(f'cge_request_seconds_bucket{{operation="{name}",le="{bound}"}} {value}')
            lines.append(f'cge_request_seconds_sum{{operation="{name}"}} {seconds[name]:.6f}')
            lines.append(f'cge_request_seconds_count{{operation="{name}"}} {values[-1]}')
        gauges = {
            "cge_model_nodes": len(service.model.graph_),
            "cge_model_edges": service.model.graph_.num_edges,
            "cge_model_updates": service.updates,
        }
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value}"]
        return "\n".join(lines) + "\n"

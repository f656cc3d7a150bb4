"""What a workload is measured in besides its cells: its network, its server and what puts load on its services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from interlock.engine import cells, loads
from interlock.engine.host.server import serving
from interlock.engine.running import OnHost, require_containers
from interlock.model import Workload
from interlock.stage import Stage, Stand


@contextmanager
def staged(stand: Stand, workload: Workload) -> Iterator[Stage]:
    """The workload's stage, gone after the block; WorkloadError if its server or what puts load on does not come up."""
    if workload.server is None and workload.load is None:
        yield Stage(stand, workload, None, None, None)
        return
    if isinstance(stand.client, OnHost):
        with _on_host(stand.client, stand, workload) as stage:
            yield stage
        return
    network = cells.create_network(stand.client, stand.experiment)
    server = loader = None
    try:
        url = None
        if workload.server is not None:
            server = cells.start_server(
                stand.client, stand.experiment, stand.server_image_id, network, workload.server.environment
            )
            url = cells.server_url(stand.client, server, network)
        if workload.load is not None:
            loader = loads.start_loader(stand.client, stand.experiment, stand.load_image_id, network)
            # To a service the database is the server.
            url = f"{cells.address_of(stand.client, loader, network)}:{loads.DATABASE_PORT}"
        yield Stage(stand, workload, network, server, url, loader)
    finally:
        for container in (server, loader):
            if container is not None:
                cells.remove(container)
        cells.remove_network(stand.client, network)


@contextmanager
def _on_host(host: OnHost, stand: Stand, workload: Workload) -> Iterator[Stage]:
    if workload.load is not None or workload.server is None:
        raise require_containers("the load on a service")
    with serving(host.root, workload.server.environment, host.memory) as url:
        yield Stage(stand, workload, None, None, url)

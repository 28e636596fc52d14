"""The cluster metadata of this node: the committed image, the metadata log, and the controller's quorum.

`metadata_quorum.py` is the interface, which has two implementations:
- `quorum.py` on a node with a controller. Its parts are the decisions while this node leads
  (`active_controller.py`, `controller_tasks.py`), this controller's registration and vote
  (`controller_membership.py`), and the connections to the others (`other_controllers.py`).
- `remote_quorum.py` on a broker alone. It finds the leader through `controller.quorum.bootstrap.servers` or
  `.voters` and follows its log as an observer.
Both own a `metadata_replica.py`: the metadata log on disk (`raft/driver.py` over `raft/metadata_log.py`), the
image of what is committed (`committed_metadata.py`), and snapshots (`metadata_snapshots.py`).
The broker's own requests (registration, heartbeats, producer ids, auto-created topics) go through
`MetadataQuorum.ask`, which is a function call if the active controller runs on the same node.
"""

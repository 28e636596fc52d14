"""The cluster metadata of this node: the committed image, the metadata log, and the controller's quorum.

`committed_metadata.py` is the interface: the committed image, the metadata log on disk (`raft/driver.py` over
`raft/metadata_log.py`), snapshots. It has two implementations, and the rest of the node does not ask which:
- `quorum.py` on a node with a controller. It decides while this node leads. On the controller listener it
  serves other replicas (fetch, snapshots, votes, quorum epochs) and brokers (envelopes, registration,
  heartbeats).
- `remote_quorum.py` on a broker alone. It finds the leader through `controller.quorum.bootstrap.servers` or
  `.voters` and follows its log as an observer.
The broker's own requests (registration, heartbeats, producer ids, auto-created topics) go through
`CommittedMetadata.ask`, which is a function call if the active controller runs on the same node.
"""

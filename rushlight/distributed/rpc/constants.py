"""`torch.distributed.rpc.constants`: how long calls may take if nobody says."""

from datetime import timedelta

DEFAULT_RPC_TIMEOUT_SEC: float = 60.0
DEFAULT_INIT_METHOD = "env://"
DEFAULT_SHUTDOWN_TIMEOUT: float = 0
DEFAULT_NUM_WORKER_THREADS = 16
DEFAULT_PROCESS_GROUP_TIMEOUT = timedelta(milliseconds=2**31 - 1)
UNSET_RPC_TIMEOUT: float = -1.0

"""Which device runs the model."""

import logging

import torch

from anaphora.engine.config import DeviceName
from anaphora.errors import ConfigError

logger = logging.getLogger(__name__)


def choose_device(wanted: DeviceName) -> torch.device:
    """The device for ``wanted``: the first GPU that ``CUDA_VISIBLE_DEVICES`` shows, or the CPU.

    Raises:
        ConfigError: a GPU is wanted and there is none.
    """
    if wanted == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", 0)
        logger.info("device: %s", torch.cuda.get_device_name(device))
        return device
    if wanted == "cuda":
        raise ConfigError(
            "device is cuda, but torch sees no GPU (driver, CUDA_VISIBLE_DEVICES, or a torch without CUDA): use device "
            "auto or cpu"
        )
    logger.info("no GPU: the model runs on the CPU")
    return torch.device("cpu")

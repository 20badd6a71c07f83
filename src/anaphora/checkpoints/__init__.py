"""Find a model and read what it says about itself. No weights in memory here, and no torch."""

from anaphora.checkpoints.checkpoint import Checkpoint, find_checkpoint, find_model_config
from anaphora.checkpoints.config_reader import read_eos_token_ids, read_model_config
from anaphora.checkpoints.default_model import DEFAULT_MODEL
from anaphora.checkpoints.folder import weight_files
from anaphora.checkpoints.json_fields import read_json_object
from anaphora.checkpoints.model_config import ModelConfig, RopeScaling
from anaphora.checkpoints.progress import Progress, TerminalProgress

__all__ = [
    "DEFAULT_MODEL",
    "Checkpoint",
    "ModelConfig",
    "Progress",
    "RopeScaling",
    "TerminalProgress",
    "find_checkpoint",
    "find_model_config",
    "read_eos_token_ids",
    "read_json_object",
    "read_model_config",
    "weight_files",
]

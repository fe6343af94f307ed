"""What handlers read labels and find classes with.

Enters: modules, files of labels, probabilities. Leaves: classes, labels, probabilities by label. Refuses: label files
that are no JSON object.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
from types import ModuleType
from typing import Any


class PredictionException(Exception):
    """A prediction that fails with a message and a status for the client."""

    def __init__(self, message: str, error_code: int = 500) -> None:
        super().__init__(f"{message} : {error_code}")
        self.message, self.error_code = message, error_code


def list_classes_from_module(module: ModuleType, parent_class: type | None = None) -> list[type]:
    """The classes that a module defines; with `parent_class`, those that derive from it."""
    found = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    if parent_class is None:
        return found
    derived = [c for c in found if issubclass(c, parent_class)]
    # Of a class and its base the handler is the class.
    return [c for c in derived if not any(c is not other and issubclass(other, c) for other in derived)]


def load_label_mapping(mapping_file_path: str) -> Any:
    """Labels by the number of their class, from a file of JSON; None where there is no file. Of several words for a
    class the last is its label."""
    if not os.path.isfile(mapping_file_path):
        logging.getLogger(__name__).warning("there is no file of labels at %s", mapping_file_path)
        return None
    with open(mapping_file_path) as file:
        said = json.load(file)
    if not isinstance(said, dict):
        name = os.path.basename(mapping_file_path)
        raise TypeError(f"{name}: expected an object of labels, got {type(said).__name__}")
    if "object_type_names" in said:
        return said["object_type_names"]
    return {key: str(value[-1]) if isinstance(value, list) else str(value) for key, value in said.items()}


def map_class_to_label(probs: Any, mapping: Any = None, lbl_classes: Any = None) -> list[Any]:
    """Probabilities by label, for each row. `lbl_classes` says of which classes they are; without it, of the first."""
    if mapping is None and lbl_classes is None:
        return probs
    results = []
    for at, row in enumerate(probs):
        classes = lbl_classes[at] if lbl_classes is not None else range(len(row))
        results.append({_label(mapping, number): value for number, value in zip(classes, row)})
    return results


def _label(mapping: Any, number: Any) -> str:
    if isinstance(mapping, dict):
        return mapping.get(str(number), str(number))
    return mapping[number] if isinstance(mapping, list) else str(number)


def get_yaml_config(yaml_file_path: str) -> dict[str, Any]:
    """What a file of YAML says."""
    import yaml  # few handlers have one

    with open(yaml_file_path) as file:
        return yaml.safe_load(file) or {}

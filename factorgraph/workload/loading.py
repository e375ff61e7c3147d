"""From a name or a Hugging Face `config.json` to a `ModelConfig`."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.paths import search_path
from factorgraph.workload.families import FAMILIES, WRAPPERS, AbstractFamily
from factorgraph.workload.fields import BESIDE, HARMLESS, REFUSED
from factorgraph.workload.model import ModelConfig

_EMPTY = (None, False, 0, "", [], {})


def list_models() -> list[str]:
    """Names that `load_model` knows: the user's own (FACTORGRAPH_PATH) and the bundled ones.

    Examples:
        >>> "llama-3.1-8b" in list_models()
        True
    """
    return sorted({file.stem for folder in search_path("models") for file in folder.glob("*.json")})


def load_model(model: str | os.PathLike[str] | ModelConfig) -> ModelConfig:
    """Read a model's sizes.

    Args:
        model: a name from `list_models()`, the path of a Hugging Face `config.json` or of the folder it is in, or a
            `ModelConfig`, which comes back as it is.

    Raises:
        FactorGraphError: nothing has this name, the file cannot be read, a field is missing or wrong, or the model
            has kernels that are not listed here.

    Examples:
        >>> load_model("qwen3-30b-a3b").active_parameter_count
        3353032704
    """
    if isinstance(model, ModelConfig):
        return model
    if not isinstance(model, str | os.PathLike):
        raise FactorGraphError(f"a model is a name, a path or a ModelConfig, not {type(model).__name__}")
    file, name = _find(model)
    try:
        return _describe(_read_json(file) | _quantization_beside(file), name)
    except FactorGraphError as error:
        raise FactorGraphError(f"model '{name}' ({file}): {error}") from None


def _find(model: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file, and the name to call the model by."""
    if isinstance(model, str) and model in list_models():
        return next(file for folder in search_path("models") if (file := folder / f"{model}.json").is_file()), model
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise FactorGraphError(f"folder {path} holds no config.json")
        return path / "config.json", path.resolve().name
    if path.is_file():
        return path, path.resolve().parent.name if path.name == "config.json" else path.stem
    if isinstance(model, os.PathLike) or path.suffix == ".json":
        raise FactorGraphError(f"there is no file {path}")
    raise UnknownNameError("model", model, list_models())


def _read_json(file: Path) -> dict[str, Any]:
    try:
        # A byte-order mark, which some editors write, is no fault of the file's content.
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FactorGraphError(f"the file cannot be read: {error.strerror}") from None
    except RecursionError:
        raise FactorGraphError("the file is nested too deeply") from None
    except ValueError as error:  # malformed JSON, bytes that are no UTF-8, or an integer of thousands of digits
        raise FactorGraphError(f"the file is no JSON text: {error}") from None
    if not isinstance(config, dict):
        raise FactorGraphError(f"the file holds a JSON {type(config).__name__}, not an object with fields")
    return config


def _quantization_beside(file: Path) -> dict[str, Any]:
    """Quantisation as NVIDIA's Model Optimizer states it, in a file of its own."""
    beside = file.with_name("hf_quant_config.json")
    if file.name != "config.json" or not beside.is_file():
        return {}
    return {"quantization_config": _read_json(beside).get("quantization")}


def _describe(config: dict[str, Any], name: str) -> ModelConfig:
    decoder, around = _unwrap(config)
    family = _validate(decoder)
    extra = (decoder.keys() - type(family).model_fields.keys() - family.irrelevant) | around.keys()
    stated = {key: (around | decoder)[key] for key in sorted(extra) if (around | decoder)[key] not in _EMPTY}
    for key in stated.keys() & REFUSED.keys():
        raise FactorGraphError(f"field {key} means {REFUSED[key]}, whose kernels are not listed here")
    sliding_layers = sum(family.sliding())
    checkpoint_weights, unconverted = _checkpoint_weights(family.quantization_config)
    return ModelConfig(
        name=name,
        model_type=family.model_type,
        hidden_size=family.hidden_size,
        layers=family.num_hidden_layers,
        vocab_size=family.vocab_size,
        max_position=family.max_position_embeddings,
        tied_embeddings=family.tie_word_embeddings,
        attention=family.attention(),
        feedforwards=family.feedforwards(),
        sliding_window=family.window if sliding_layers else None,
        sliding_layers=sliding_layers,
        norms_per_layer=family.norms_per_layer,
        logit_softcap=family.logit_softcap,
        checkpoint_weights=checkpoint_weights,
        unread_fields=tuple(key for key in stated if key not in HARMLESS | BESIDE.keys()),
        ignored=tuple(f"{key}: {BESIDE[key]}" for key in stated if key in BESIDE) + unconverted,
    )


def _unwrap(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decoder's own fields, and those of the model around it."""
    if config.get("model_type") not in WRAPPERS:
        return config, {}
    decoder = config.get("text_config")
    if not isinstance(decoder, dict):
        raise FactorGraphError("field text_config, which describes the decoder, is missing or no object")
    shared = {key: config[key] for key in ("tie_word_embeddings", "quantization_config") if key in config}
    around = {key: value for key, value in config.items() if key not in {"text_config", "model_type"} | shared.keys()}
    return shared | decoder, around


def _validate(config: dict[str, Any]) -> AbstractFamily:
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise FactorGraphError("field model_type, which names the family, is missing or no text")
    if model_type not in FAMILIES:
        raise UnknownNameError("model_type", model_type, [*FAMILIES, *WRAPPERS])
    try:
        return FAMILIES[model_type].model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise FactorGraphError(f"field {field} is missing") from None
        message = first["msg"][0].lower() + first["msg"][1:]
        raise FactorGraphError(f"field {field} is {first['input']!r:.60}: {message}") from None


def _checkpoint_weights(quantization: dict[str, Any] | None) -> tuple[str, tuple[str, ...]]:
    """How the checkpoint stores weights, and what is left unread in saying so."""
    if quantization is None:
        return "bf16", ()
    match method := quantization.get("quant_method"), algorithm := quantization.get("quant_algo"):
        case ("fp8" | "fbgemm_fp8", None) | ("modelopt" | None, "FP8"):
            weights = "fp8"
        case "modelopt" | None, "NVFP4":
            weights = "fp4"
        case "mxfp4", None:
            weights = "mxfp4"
        case _:
            weights = " ".join(str(part) for part in (method, algorithm) if part is not None) or "an unnamed format"
    narrow = "all but router, LM head and embedding" if weights != "mxfp4" else "the experts alone"
    lists = [key for key in ("modules_to_not_convert", "ignore", "exclude_modules") if quantization.get(key)]
    return weights, tuple(f"quantization_config.{key}: {narrow} are taken to be quantised" for key in lists)

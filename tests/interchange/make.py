"""Makes gpt2, llama, mixtral and deepseek: models as transformers saves them, and losses of steps on them.

Needs PyTorch, transformers and PyYAML; downloads nothing.

    python3 tests/interchange/make.py
"""

import json

from theirs import HERE, MODELS, make, read_deck, train


def main():
    for name in MODELS:
        deck = read_deck(name)
        model = make(name, deck)
        folder = HERE / name
        model.save_pretrained(folder)
        (folder / "model.safetensors").chmod(0o644)
        (folder / "generation_config.json").unlink(missing_ok=True)
        (folder / "losses.json").write_text(json.dumps(train(model, deck), indent=1) + "\n")


if __name__ == "__main__":
    main()

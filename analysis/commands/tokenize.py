"""Makes a token file, for data.kind tokens, from texts with a tokenizer.json; or turns one back.

The tokenizer is a file of the tokenizers package, such as the tokenizer.json that transformers
keeps beside a model. Every text is read whole and cut without additional tokens. The file is
llm.c's: a header of 256 int32 (20240520, version 1, number of tokens, unused), then uint16 tokens,
little-endian.

    python3 -m analysis tokenize --tokenizer tokenizer.json --out my.bin a.txt b.txt
    python3 -m analysis tokenize --tokenizer tokenizer.json --back my.bin
"""

import array
import os
import struct
import sys

HELP = "a token file from texts, with the tokenizer.json of a model; or back"

MAGIC = 20240520
VERSION = 1
HEADER_BYTES = 1024
LARGEST = 65535  # the largest token of a file


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="texts in UTF-8; with --back a token file")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--out", help="the token file to write")
    which.add_argument("--back", action="store_true", help="print the text of token files")
    parser.add_argument("--end", metavar="TOKEN",
                        help="a token that ends every text, such as <|endoftext|>")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing --out")


def open_tokenizer(path):
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise ValueError("the package tokenizers is missing; pip install tokenizers gets it"
                         ) from None
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # it throws no more precise type
        raise ValueError(f"{path}: no tokenizer: {error}") from None


def end_token(tokenizer, text):
    if text is None:
        return []
    token = tokenizer.token_to_id(text)
    if token is None:
        raise ValueError(f"--end {text}: the tokenizer has no such token")
    return [token]


def read_text(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8: {error}") from None


def tokens_of(tokenizer, path, end):
    tokens = tokenizer.encode(read_text(path), add_special_tokens=False).ids + end
    if tokens and max(tokens) > LARGEST:
        raise ValueError(f"{path}: has token {max(tokens)}, but a token file holds at most "
                         f"{LARGEST}: the vocabulary is too large")
    return tokens


def little_endian(tokens):
    """Returns array("H") in the file's byte order."""
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens


def write_tokens(path, tokens):
    """Writes to another name until the file is complete."""
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(struct.pack("<256i", MAGIC, VERSION, len(tokens), *[0] * 253))
        file.write(little_endian(tokens).tobytes())
    os.replace(partial, path)


def read_tokens(path):
    with open(path, "rb") as file:
        content = file.read()
    if len(content) < HEADER_BYTES:
        raise ValueError(f"{path}: no token file: it has {len(content)} bytes")
    magic, version, count = struct.unpack_from("<3i", content)
    if (magic, version) != (MAGIC, VERSION) or len(content) != HEADER_BYTES + 2 * count:
        raise ValueError(f"{path}: no token file of version {VERSION}, or truncated")
    tokens = array.array("H")
    tokens.frombytes(content[HEADER_BYTES:])
    return little_endian(tokens)


def run(arguments):
    tokenizer = open_tokenizer(arguments.tokenizer)
    if arguments.back:
        for path in arguments.files:
            tokens = read_tokens(path).tolist()
            sys.stdout.write(tokenizer.decode(tokens, skip_special_tokens=False))
        return
    if os.path.exists(arguments.out) and not arguments.overwrite:
        raise FileExistsError(f"{arguments.out}: exists; --overwrite replaces it")
    end = end_token(tokenizer, arguments.end)
    tokens = array.array("H")
    for path in arguments.files:
        tokens.extend(tokens_of(tokenizer, path, end))
    write_tokens(arguments.out, tokens)
    print(f"{arguments.out}: {len(tokens):,} tokens of a vocabulary of "
          f"{tokenizer.get_vocab_size():,}, for model.vocab")

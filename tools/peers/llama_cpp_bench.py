"""Prefill and decode speed of llama.cpp on one GGUF file, through llama-cpp-python's low-level API.

Usage: llama_cpp_bench.py MODEL.gguf [--threads 2] [--prefill 512] [--decode 64] [--depth D ...]
                          [--n-batch 512] [--n-ubatch 512] [--flash-attn] [--repetitions 5]

Prefill: tokens a second of --prefill tokens into an empty context, logits of the last one only.
Decode: tokens a second of --decode single-token steps, into an empty context and at each --depth.
The ids are fixed and no sampling takes place, so the time is that of llama_decode. The first
repetition warms up and is not counted; values are medians of the rest, with extremes.
Prints one JSON object.
"""

import argparse
import json
import os
import statistics
import time

import llama_cpp


class Runner:
    def __init__(self, args, context):
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(args.model.encode(), params)
        assert self.model, "cannot load " + args.model
        c = llama_cpp.llama_context_default_params()
        c.n_ctx, c.n_batch, c.n_ubatch = context, args.n_batch, args.n_ubatch
        c.n_threads = c.n_threads_batch = args.threads
        c.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if args.flash_attn
            else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self.context = llama_cpp.llama_init_from_model(self.model, c)
        assert self.context, "no context"
        self.batch = llama_cpp.llama_batch_init(args.n_batch, 0, 1)
        self.n_batch = args.n_batch
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(vocab)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, start, count):
        """Tokens [start, start + count) of the fixed sequence; logits of the last only."""
        done = 0
        while done < count:
            n = min(self.n_batch, count - done)
            for i in range(n):
                at = start + done + i
                self.batch.token[i] = 100 + at * 7919 % (self.vocabulary // 2)
                self.batch.pos[i] = at
                self.batch.n_seq_id[i] = 1
                self.batch.seq_id[i][0] = 0
                self.batch.logits[i] = done + i == count - 1
            self.batch.n_tokens = n
            assert llama_cpp.llama_decode(self.context, self.batch) == 0
            done += n
        llama_cpp.llama_synchronize(self.context)

    def prefill_seconds(self, count):
        self.clear()
        start = time.perf_counter()
        self.decode(0, count)
        return time.perf_counter() - start

    def decode_seconds(self, depth, count):
        """Time of `count` steps after `depth` tokens, which are not timed."""
        self.clear()
        if depth:
            self.decode(0, depth)
        start = time.perf_counter()
        for i in range(count):
            self.decode(depth + i, 1)
        return time.perf_counter() - start


def rates(count, seconds):
    speeds = [count / s for s in seconds]
    return {
        "tokens_per_s": round(statistics.median(speeds), 2),
        "min": round(min(speeds), 2),
        "max": round(max(speeds), 2),
        "tokens": count,
    }


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((x.split(":")[1].strip() for x in f if x.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, nargs="*", default=[])
    parser.add_argument("--n-batch", type=int, default=512)
    parser.add_argument("--n-ubatch", type=int, default=512)
    parser.add_argument("--flash-attn", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()

    depths = [0, *args.depth]
    need = max(args.prefill, max(depths) + args.decode)
    runner = Runner(args, (need + 255) // 256 * 256)
    prefill, decode = [], {d: [] for d in depths}
    for repetition in range(args.repetitions + 1):
        p = runner.prefill_seconds(args.prefill)
        d = {depth: runner.decode_seconds(depth, args.decode) for depth in depths}
        if repetition:
            prefill.append(p)
            for depth in depths:
                decode[depth].append(d[depth])
    print(
        json.dumps(
            {
                "program": "llama-cpp-python " + llama_cpp.__version__,
                "model": os.path.basename(args.model),
                "cpu": cpu_name(),
                "system": llama_cpp.llama_print_system_info().decode().strip(),
                "threads": args.threads,
                "n_batch": args.n_batch,
                "n_ubatch": args.n_ubatch,
                "flash_attn": args.flash_attn,
                "repetitions": args.repetitions,
                "prefill": rates(args.prefill, prefill),
                "decode": [{"depth": d, **rates(args.decode, s)} for d, s in decode.items()],
            }
        )
    )


if __name__ == "__main__":
    main()

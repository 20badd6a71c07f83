"""Experiment 2 of the published comparison, written out again: time against prefix length, one output token.

    python examples/prefix_length_exp.py --cache on  [--base-url URL] [--model NAME] [--results-dir DIR]
    python examples/prefix_length_exp.py --cache off ...   (against a server with --no-enable-prefix-caching)

With Qwen2.5's tokenizer the prompts have the published lengths: 353, 681, 1337, 2649 and 3961 tokens. `anaphora fit` fits
the resulting table.
"""

import argparse
import json
import os
import time
from pathlib import Path
from statistics import mean

import requests

BASE_URL = os.environ.get("VLLM_BASE_URL", "http://localhost:8000")
MODEL_NAME = os.environ.get("MODEL_NAME", "qwen2.5-7b")
RESULTS_DIR = Path("results/prefix_length_exp")

BASE_UNIT = (
    "你是一个专业的AI助手。你需要遵循以下规则：\n"
    "1. 回答必须准确、客观、有依据。\n"
    "2. 如果不确定，要明确说明不确定的原因。\n"
    "3. 回答要结构化，使用适当的标题和段落。\n"
    "4. 对于技术问题，要给出可运行的代码示例。\n"
    "5. 对于历史问题，要注明具体时间节点和史料来源。\n"
)
TOKENS_PER_UNIT = 64

TARGET_PREFIX_TOKENS = [256, 512, 1024, 2048, 3072]
USER_QUESTION = "请简要介绍一下汉武帝的主要历史功绩。"
REPEAT_PER_LENGTH = 5


def build_system_prompt(target_tokens: int) -> str:
    repeat = max(1, round(target_tokens / TOKENS_PER_UNIT))
    return BASE_UNIT * repeat


def send_request(system_prompt: str) -> tuple[float, int]:
    start = time.perf_counter()
    resp = requests.post(
        f"{BASE_URL}/v1/chat/completions",
        json={
            "model": MODEL_NAME,
            "messages": [
                {"role": "system", "content": system_prompt},
                {"role": "user", "content": USER_QUESTION},
            ],
            "max_tokens": 1,
            "temperature": 0,
        },
        timeout=60,
    )
    elapsed_ms = (time.perf_counter() - start) * 1000
    prompt_tokens = resp.json()["usage"]["prompt_tokens"]
    return elapsed_ms, prompt_tokens


def warmup():
    print("预热中...")
    send_request("你好")
    time.sleep(1)
    print("预热完成。\n")


def run_experiment(mode: str):
    RESULTS_DIR.mkdir(parents=True, exist_ok=True)
    warmup()
    results = []

    for target in TARGET_PREFIX_TOKENS:
        system_prompt = build_system_prompt(target)
        print(f"=== 前缀目标 {target} tokens ===")

        if mode == "cache_on":
            ttft, pt = send_request(system_prompt)
            print(f"  [冷启动] TTFT={ttft:.1f}ms prompt_tokens={pt}")

        ttfts = []
        for i in range(REPEAT_PER_LENGTH):
            ttft, pt = send_request(system_prompt)
            ttfts.append(ttft)
            print(f"  [第{i + 1}次] TTFT={ttft:.1f}ms prompt_tokens={pt}")
            time.sleep(0.3)

        avg = mean(ttfts)
        record = {
            "target_prefix_tokens": target,
            "mode": mode,
            "avg_ttft_ms": round(avg, 1),
            "min_ttft_ms": round(min(ttfts), 1),
            "max_ttft_ms": round(max(ttfts), 1),
        }
        results.append(record)
        print(f"  → 平均 TTFT: {avg:.1f}ms\n")

    out_path = RESULTS_DIR / f"results_{mode}.json"
    with open(out_path, "w", encoding="utf-8") as f:
        json.dump(results, f, ensure_ascii=False, indent=2)
    print(f"结果已保存至 {out_path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", choices=["on", "off"], required=True)
    parser.add_argument("--base-url", default=BASE_URL)
    parser.add_argument("--model", default=MODEL_NAME)
    parser.add_argument("--results-dir", type=Path, default=RESULTS_DIR)
    args = parser.parse_args()
    BASE_URL, MODEL_NAME, RESULTS_DIR = args.base_url, args.model, args.results_dir
    run_experiment("cache_on" if args.cache == "on" else "cache_off")

"""Experiment 1 of the published comparison, written out again: eight questions behind one long system prompt.

Against a running server:    python examples/prefix_cache_test.py [--base-url URL] [--model NAME]
Against a cloud API as well: TAOTOKEN_BASE_URL=... TAOTOKEN_API_KEY=... python examples/prefix_cache_test.py --cloud

Run it once against a server with --enable-prefix-caching and once with --no-enable-prefix-caching. What it prints as
TTFT is, as in the original, the time of the whole answer of 64 tokens, since nothing is streamed: `anaphora bench switch`
measures the first token apart. With Qwen2.5's tokenizer the prompts have the published lengths (1499 to 1504 tokens).
"""

import argparse
import os
import time

import requests

VLLM_BASE_URL = os.environ.get("VLLM_BASE_URL", "http://localhost:8000")
MODEL_NAME = os.environ.get("MODEL_NAME", "qwen2.5-7b")

# 云端对照（可选）
TAOTOKEN_MODEL = os.environ.get("TAOTOKEN_MODEL", "gpt-4o-mini")

SYSTEM_PROMPT = (
    """你是一个专业的AI助手。你需要遵循以下规则：
1. 回答必须准确、客观、有依据
2. 如果不确定，要明确说明
3. 回答要结构化，使用适当的标题和段落
4. 对于技术问题，要给出代码示例
5. 对于历史问题，要注明时间和来源
"""
    * 20
)  # 重复 20 次，约 1488 tokens


def send_request(question, base_url=None, model=None):
    start = time.time()
    r = requests.post(
        f"{base_url or VLLM_BASE_URL}/v1/chat/completions",
        json={
            "model": model or MODEL_NAME,
            "messages": [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": question},
            ],
            "max_tokens": 64,
            "temperature": 0,
        },
    )
    elapsed = time.time() - start
    data = r.json()
    return elapsed * 1000, data["usage"]["prompt_tokens"]


def send_request_taotoken(question):
    start = time.time()
    r = requests.post(
        f"{os.environ['TAOTOKEN_BASE_URL']}/v1/chat/completions",
        headers={"Authorization": f"Bearer {os.environ['TAOTOKEN_API_KEY']}"},
        json={
            "model": TAOTOKEN_MODEL,
            "messages": [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": question},
            ],
            "max_tokens": 64,
            "temperature": 0,
        },
    )
    elapsed = time.time() - start
    return elapsed * 1000, r.json()["usage"]["prompt_tokens"]


def get_prefix_cache_stats():
    r = requests.get(f"{VLLM_BASE_URL}/metrics")
    queries, hits = 0.0, 0.0
    for line in r.text.split("\n"):
        if line.startswith("vllm:prefix_cache_queries_total{"):
            queries = float(line.split("} ")[1])
        if line.startswith("vllm:prefix_cache_hits_total{"):
            hits = float(line.split("} ")[1])
    return queries, hits


questions = [
    "秦始皇统一六国的过程是怎样的？",
    "汉武帝的主要功绩有哪些？",
    "唐朝的开元盛世是怎么回事？",
    "宋朝的经济发展有哪些特点？",
    "明朝的海禁政策是什么？",
    "清朝的洋务运动取得了哪些成果？",
    "辛亥革命的意义是什么？",
    "五四运动的背景和影响？",
]


def main():
    init_queries, init_hits = get_prefix_cache_stats()

    for i, q in enumerate(questions):
        elapsed, tokens = send_request(q)
        print(f"{i + 1:<4} {q[:18]:<20} {elapsed:>10.1f} ms {tokens:>6} tokens")

    final_queries, final_hits = get_prefix_cache_stats()
    total_new_queries = final_queries - init_queries
    total_new_hits = final_hits - init_hits
    hit_rate = total_new_hits / total_new_queries * 100 if total_new_queries > 0 else 0
    print(f"\n命中率: {hit_rate:.1f}%，节省 {total_new_hits:.0f} tokens 的 KV 计算")


def compare_with_cloud():
    print("\n云端对照")
    for i, q in enumerate(questions):
        elapsed, tokens = send_request_taotoken(q)
        print(f"{i + 1:<4} {q[:18]:<20} {elapsed:>10.1f} ms {tokens:>6} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", default=VLLM_BASE_URL)
    parser.add_argument("--model", default=MODEL_NAME)
    parser.add_argument("--cloud", action="store_true")
    args = parser.parse_args()
    VLLM_BASE_URL, MODEL_NAME = args.base_url, args.model
    main()
    if args.cloud:
        compare_with_cloud()

"""vLLM's routes beside the OpenAI ones: tokens, the tokenizer, LoRA adapters."""

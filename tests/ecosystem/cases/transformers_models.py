"""Hugging Face Transformers: many architectures with tiny random configurations, forward, backward and generation."""

from __future__ import annotations

import torch
import transformers

from tests.ecosystem.compiling import prepared

NEEDS = "transformers"
transformers.logging.set_verbosity_error()

TOKENS = dict(vocab_size=99, max_position_embeddings=64)
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37)
DECODER = dict(**TOKENS, **SMALL, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=None)


def ids(batch: int = 2, length: int = 10) -> torch.Tensor:
    return torch.randint(3, 99, (batch, length))


def named_grads(model: torch.nn.Module) -> dict:
    """The gradient of every parameter that has one (names are part of the comparison)."""
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def trained(model: torch.nn.Module, loss: torch.Tensor, **outputs: object) -> dict:
    loss.backward()
    return {"loss": loss, "grads": named_grads(model), "keys": list(model.state_dict()), **outputs}


def causal(model: torch.nn.Module, sample: bool = True) -> dict:
    """A language model: its loss and gradients, greedy, sampled and beam-searched text."""
    model, tokens = prepared(model), ids()
    model.train(False)
    result = trained(model, model(input_ids=tokens, labels=tokens).loss)
    prompt = tokens[:, :4]
    with torch.no_grad():
        result["logits"] = model(input_ids=tokens).logits
        result["greedy"] = model.generate(prompt, max_new_tokens=8, do_sample=False)
        if model.config.model_type != "mamba":
            result["static"] = model.generate(prompt, max_new_tokens=8, do_sample=False, cache_implementation="static")
        if sample:
            result["sampled"] = model.generate(prompt, max_new_tokens=8, do_sample=True, top_k=20, temperature=0.9)
            result["beams"] = model.generate(prompt, max_new_tokens=6, num_beams=3, do_sample=False)
    return result


def masked(model: torch.nn.Module) -> dict:
    """A masked language model in training mode, with padding."""
    model, tokens = prepared(model), ids()
    mask = torch.ones_like(tokens)
    mask[0, 7:] = 0
    model.train()
    outputs = model(input_ids=tokens, attention_mask=mask, labels=tokens, output_hidden_states=True)
    return trained(model, outputs.loss, logits=outputs.logits, hidden=outputs.hidden_states)


def case_bert() -> dict:
    return masked(transformers.BertForMaskedLM(transformers.BertConfig(**TOKENS, **SMALL)))


def case_bert_classifier() -> dict:
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**TOKENS, **SMALL, num_labels=3))
    return trained(model, prepared(model)(input_ids=ids(), labels=torch.tensor([0, 2])).loss)


def case_roberta() -> dict:
    return masked(transformers.RobertaForMaskedLM(transformers.RobertaConfig(**TOKENS, **SMALL)))


def case_distilbert() -> dict:
    config = transformers.DistilBertConfig(
        vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=37, max_position_embeddings=64
    )
    return masked(transformers.DistilBertForMaskedLM(config))


def case_albert() -> dict:
    return masked(transformers.AlbertForMaskedLM(transformers.AlbertConfig(**TOKENS, **SMALL, embedding_size=16)))


def case_electra() -> dict:
    return masked(transformers.ElectraForMaskedLM(transformers.ElectraConfig(**TOKENS, **SMALL, embedding_size=16)))


def case_deberta_v2() -> dict:
    config = transformers.DebertaV2Config(
        **TOKENS, **SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8
    )
    return masked(transformers.DebertaV2ForMaskedLM(config))


def case_gpt2() -> dict:
    config = transformers.GPT2Config(
        vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=None, pad_token_id=0
    )
    return causal(transformers.GPT2LMHeadModel(config))


def case_llama() -> dict:
    return causal(transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER)))


def case_mistral() -> dict:
    return causal(transformers.MistralForCausalLM(transformers.MistralConfig(**DECODER, sliding_window=6)))


def case_mixtral() -> dict:
    config = transformers.MixtralConfig(
        **{**DECODER, "intermediate_size": 32}, num_local_experts=4, num_experts_per_tok=2, sliding_window=None
    )
    return causal(transformers.MixtralForCausalLM(config))


def case_qwen2() -> dict:
    return causal(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER)))


def case_gemma() -> dict:
    return causal(transformers.GemmaForCausalLM(transformers.GemmaConfig(**DECODER, head_dim=8)))


def case_phi() -> dict:
    return causal(transformers.PhiForCausalLM(transformers.PhiConfig(**DECODER)))


def case_gpt_neox() -> dict:
    return causal(
        transformers.GPTNeoXForCausalLM(
            transformers.GPTNeoXConfig(**TOKENS, **SMALL, eos_token_id=None, pad_token_id=0)
        )
    )


def case_opt() -> dict:
    config = transformers.OPTConfig(
        **TOKENS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=37,
        word_embed_proj_dim=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return causal(transformers.OPTForCausalLM(config))


def case_bloom() -> dict:
    config = transformers.BloomConfig(
        vocab_size=99, hidden_size=32, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=1, eos_token_id=None
    )
    return causal(transformers.BloomForCausalLM(config))


def case_falcon() -> dict:
    config = transformers.FalconConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return causal(transformers.FalconForCausalLM(config))


def case_mamba() -> dict:
    config = transformers.MambaConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return causal(transformers.MambaForCausalLM(config), sample=False)


def sequence_to_sequence(model: torch.nn.Module) -> dict:
    model, tokens, labels = prepared(model), ids(), ids(2, 6)
    model.train(False)
    result = trained(model, model(input_ids=tokens, labels=labels).loss)
    with torch.no_grad():
        result["greedy"] = model.generate(tokens, max_new_tokens=6, do_sample=False)
        result["beams"] = model.generate(tokens, max_new_tokens=6, num_beams=2, do_sample=False)
    return result


def case_t5() -> dict:
    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return sequence_to_sequence(transformers.T5ForConditionalGeneration(config))


def case_bart() -> dict:
    config = transformers.BartConfig(
        **TOKENS,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    return sequence_to_sequence(transformers.BartForConditionalGeneration(config))


def case_whisper() -> dict:
    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        num_mel_bins=16,
        max_source_positions=20,
        max_target_positions=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = prepared(transformers.WhisperForConditionalGeneration(config).eval())
    sound, labels = torch.randn(2, 16, 40), ids(2, 6)
    result = trained(model, model(input_features=sound, labels=labels).loss)
    with torch.no_grad():
        result["greedy"] = model.generate(sound, max_new_tokens=6, do_sample=False)
    return result


def picture_classifier(model: torch.nn.Module, size: int = 32) -> dict:
    model = prepared(model)
    model.train(False)
    outputs = model(pixel_values=torch.randn(2, 3, size, size), labels=torch.tensor([0, 1]))
    return trained(model, outputs.loss, logits=outputs.logits)


def case_vit() -> dict:
    return picture_classifier(
        transformers.ViTForImageClassification(
            transformers.ViTConfig(**SMALL, image_size=32, patch_size=8, num_labels=4)
        )
    )


def case_deit() -> dict:
    return picture_classifier(
        transformers.DeiTForImageClassification(
            transformers.DeiTConfig(**SMALL, image_size=32, patch_size=8, num_labels=4)
        )
    )


def case_dinov2() -> dict:
    return picture_classifier(
        transformers.Dinov2ForImageClassification(
            transformers.Dinov2Config(**SMALL, image_size=32, patch_size=8, num_labels=4)
        )
    )


def case_swin() -> dict:
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=4
    )
    return picture_classifier(transformers.SwinForImageClassification(config))


def case_convnext() -> dict:
    config = transformers.ConvNextConfig(
        num_channels=3, hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=4
    )
    return picture_classifier(transformers.ConvNextForImageClassification(config))


def case_resnet() -> dict:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=4, layer_type="basic"
    )
    return picture_classifier(transformers.ResNetForImageClassification(config))


def case_clip() -> dict:
    text = dict(**TOKENS, **SMALL, projection_dim=16, eos_token_id=2, bos_token_id=1, pad_token_id=0)
    sight = dict(**SMALL, image_size=32, patch_size=8, projection_dim=16)
    model = transformers.CLIPModel(
        transformers.CLIPConfig(text_config=text, vision_config=sight, projection_dim=16)
    ).eval()
    outputs = prepared(model)(input_ids=ids(), pixel_values=torch.randn(2, 3, 32, 32), return_loss=True)
    return trained(model, outputs.loss, images=outputs.image_embeds, texts=outputs.text_embeds)


def case_wav2vec2() -> dict:
    config = transformers.Wav2Vec2Config(
        vocab_size=32,
        **SMALL,
        conv_dim=(16, 16),
        conv_kernel=(8, 4),
        conv_stride=(4, 2),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
    )
    model = prepared(transformers.Wav2Vec2ForCTC(config).eval())
    outputs = model(torch.randn(2, 800), labels=torch.randint(1, 32, (2, 5)))
    return trained(model, outputs.loss, logits=outputs.logits)

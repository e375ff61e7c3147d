"""What fields of a `config.json` mean when no family reads them."""

# Fields that change no kernel, byte or parameter: numerics, training, generation, and how the file was written.
# fmt: off
HARMLESS = frozenset({
    # the file
    "_name_or_path", "_source", "architectures", "auto_map", "dtype", "tokenizer_class", "torch_dtype",
    "transformers_version",
    # numerics; a partial rotary embedding is counted as a whole one, which moves at most twice the bytes of a copy
    "attn_logit_softcapping", "final_logit_softcapping", "hidden_act", "hidden_activation", "initial_context_length",
    "layer_norm_eps", "layernorm_epsilon", "original_max_position_embeddings", "partial_rotary_factor",
    "query_pre_attn_scalar", "rms_norm_eps", "rope_interleave", "rope_local_base_freq", "rope_parameters",
    "rope_scaling", "rope_theta", "rotary_dim", "swiglu_limit", "use_bidirectional_attention",
    # routing: which experts a token gets, not how many
    "experts_per_token", "n_group", "norm_topk_prob", "routed_scaling_factor", "scoring_func", "topk_group",
    # training
    "attention_dropout", "aux_loss_alpha", "embd_pdrop", "ep_size", "gradient_checkpointing", "hidden_dropout",
    "initializer_range", "output_router_logits", "pretraining_tp", "resid_pdrop", "router_aux_loss_coef",
    "router_jitter_noise", "seq_aux",
    # tokens
    "boi_token_index", "bos_token_id", "decoder_start_token_id", "eoi_token_index", "eos_token_id", "ignore_index",
    "image_token_id", "image_token_index", "media_placeholder_token_id", "mm_tokens_per_image", "pad_token_id",
    "sep_token_id", "unk_token_id", "video_placeholder", "video_token_id", "vision_end_token_id",
    "vision_start_token_id",
    # the tower beside the decoder
    "multimodal_projector_bias", "projector_hidden_act", "spatial_merge_size", "use_unified_vision_chunk",
    "vision_feature_layer",
    # generation and bookkeeping of `transformers`
    "_attn_implementation", "bad_words_ids", "begin_suppress_tokens", "cache_implementation",
    "chunk_size_feed_forward", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label",
    "is_decoder", "label2id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_scores", "prefix", "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty",
    "return_dict", "return_dict_in_generate", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tie_encoder_decoder", "top_k", "top_p", "torchscript", "typical_p", "use_bfloat16",
    "use_cache",
})
# fmt: on

# Fields that mean kernels which are not listed here, whenever they hold anything but null, false, 0 or nothing.
REFUSED = {
    "is_encoder_decoder": "an encoder",
    "add_cross_attention": "cross-attention",
    "cross_attention_layers": "cross-attention",
    "cross_attention_hidden_size": "cross-attention",
    "kv_lora_rank": "latent attention in a family that has none",
    "attn_output_gate": "gated attention",
    "attention_output_gate": "gated attention",
    "attention_chunk_size": "chunked attention",
    "index_topk": "sparse attention with an indexer",
    "sparse_attention_config": "sparse attention",
    "full_attention_interval": "linear attention",
    "linear_num_key_heads": "linear attention",
    "mamba_d_state": "state-space layers",
    "mamba_num_heads": "state-space layers",
    "mamba_ssm_dtype": "state-space layers",
    "ssm_state_size": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "layers_block_type": "layers of several kinds",
    "block_configs": "layers of several sizes",
    "num_kv_shared_layers": "layers that share a cache",
    "num_experts": "experts in a family that has none",
    "num_local_experts": "experts in a family that has none",
    "n_routed_experts": "experts in a family that has none",
    "enable_moe_block": "experts beside dense layers",
    "shared_expert_intermediate_size": "a gated shared expert",
}

# What may stand beside the decoder; it is left out of the tables and of the parameter count, and said so.
BESIDE = {
    "vision_config": "vision tower",
    "audio_config": "audio tower",
    "num_nextn_predict_layers": "multi-token prediction layers",
    "num_mtp_modules": "multi-token prediction layers",
    "mtp_transformer_layers": "multi-token prediction layers",
    "use_mtp": "multi-token prediction layers",
}

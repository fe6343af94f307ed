"""diffusers: tiny denoising networks, their gradients, schedulers, and a few sampling steps of whole pipelines."""

from __future__ import annotations

import diffusers
import torch
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    UNet2DConditionModel,
    UNet2DModel,
    UniPCMultistepScheduler,
    VQModel,
)
from diffusers.training_utils import EMAModel

from tests.ecosystem.compiling import prepared

NEEDS = "diffusers"
TOLERANCE = 1e-3

diffusers.utils.logging.disable_progress_bar()


def unet() -> UNet2DModel:
    return UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )


def conditioned() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        cross_attention_dim=12,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )


def autoencoder() -> AutoencoderKL:
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        latent_channels=4,
        layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        sample_size=16,
    )


def norms(model: torch.nn.Module) -> torch.Tensor:
    return torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])


def case_unet_training() -> dict:
    model, scheduler = prepared(unet()), DDPMScheduler(num_train_timesteps=100, beta_schedule="squaredcos_cap_v2")
    optimizer, average, losses = (
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        EMAModel(model.parameters(), decay=0.9),
        [],
    )
    clean = torch.randn(2, 3, 8, 8)
    for _ in range(3):
        noise, at = torch.randn_like(clean), torch.randint(0, 100, (2,))
        loss = torch.nn.functional.mse_loss(
            model(scheduler.add_noise(clean, noise, at), at, return_dict=False)[0], noise
        )
        loss.backward()
        size = norms(model)
        optimizer.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        losses.append(loss.item())
    return {
        "losses": losses,
        "norms": size,
        "average": [p.norm() for p in average.shadow_params],
        "keys": list(model.state_dict()),
    }


def case_conditioned_unet() -> dict:
    model = prepared(conditioned())
    text = torch.randn(2, 5, 12, requires_grad=True)
    out = model(torch.randn(2, 4, 8, 8), torch.tensor([3, 40]), encoder_hidden_states=text).sample
    out.square().mean().backward()
    model.enable_gradient_checkpointing()
    again = model(torch.randn(2, 4, 8, 8), 7, encoder_hidden_states=text).sample
    again.mean().backward()
    return {"out": out, "again": again, "text": text.grad, "norms": norms(model), "count": model.num_parameters()}


def case_autoencoders() -> dict:
    model = autoencoder()
    x = torch.randn(1, 3, 16, 16)
    posterior = prepared(model.encode)(x).latent_dist
    rebuilt = prepared(model.decode)(posterior.sample()).sample
    (rebuilt.sub(x).square().mean() + 1e-3 * posterior.kl().mean()).backward()
    model.enable_tiling()
    with torch.no_grad():
        tiled = prepared(model)(torch.randn(1, 3, 16, 16)).sample
    quantised = VQModel(block_out_channels=(8,), norm_num_groups=4, latent_channels=3, num_vq_embeddings=8)
    quantised = prepared(quantised)(x).sample
    return {"rebuilt": rebuilt, "norms": norms(model), "tiled": tiled, "mode": posterior.mode(), "quantised": quantised}


def case_dit() -> dict:
    model = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=1000,
        norm_num_groups=4,
    )
    model = prepared(model)
    out = model(torch.randn(2, 4, 8, 8), timestep=torch.tensor([1, 2]), class_labels=torch.tensor([3, 4])).sample
    out.square().mean().backward()
    model.eval()
    pipeline = DiTPipeline(model, autoencoder().eval(), DDIMScheduler(num_train_timesteps=50))
    pipeline.set_progress_bar_config(disable=True)
    pictures = pipeline(
        class_labels=[1], num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np"
    ).images
    return {"out": out, "norms": norms(model), "pictures": pictures}


def sampled(scheduler: object, steps: int = 6) -> dict:
    """A denoising loop with a stand-in for the network."""
    scheduler.set_timesteps(steps)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 3, 6, 6, generator=generator) * getattr(scheduler, "init_noise_sigma", 1.0)

    @prepared
    def network(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        inside = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        return 0.3 * inside + 0.1 * torch.tanh(inside) * (t / 1000)

    for t in scheduler.timesteps:
        x = scheduler.step(
            network(x, t),
            t,
            x,
            **(
                {"generator": generator}
                if "Ancestral" in type(scheduler).__name__ or "DDPM" in type(scheduler).__name__
                else {}
            ),
        ).prev_sample
    return {"x": x, "times": scheduler.timesteps}


def case_schedulers() -> dict:
    kinds = [
        DDPMScheduler,
        DDIMScheduler,
        PNDMScheduler,
        LMSDiscreteScheduler,
        EulerDiscreteScheduler,
        EulerAncestralDiscreteScheduler,
        DPMSolverMultistepScheduler,
        HeunDiscreteScheduler,
        UniPCMultistepScheduler,
        FlowMatchEulerDiscreteScheduler,
    ]
    return {kind.__name__: sampled(kind()) for kind in kinds}


def case_pipelines() -> dict:
    model, results = prepared(unet().eval()), {}
    for pipeline in (
        DDPMPipeline(model, DDPMScheduler(num_train_timesteps=20)),
        DDIMPipeline(model, DDIMScheduler(num_train_timesteps=20)),
    ):
        pipeline.set_progress_bar_config(disable=True)
        results[type(pipeline).__name__] = pipeline(
            batch_size=2, num_inference_steps=3, generator=torch.Generator().manual_seed(1), output_type="np"
        ).images
    return results


def case_text_to_picture() -> dict:
    from transformers import CLIPTextConfig, CLIPTextModel

    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=50,
            hidden_size=12,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=8,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    ).eval()
    prompt = prepared(text)(torch.randint(2, 50, (1, 8)))[0]
    nothing = torch.zeros_like(prompt)
    pipeline = diffusers.StableDiffusionPipeline(
        vae=autoencoder().eval(),
        text_encoder=text,
        tokenizer=None,
        unet=prepared(conditioned().eval()),
        scheduler=EulerDiscreteScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    pictures = pipeline(
        prompt_embeds=prompt,
        negative_prompt_embeds=nothing,
        height=16,
        width=16,
        num_inference_steps=2,
        output_type="np",
        generator=torch.Generator().manual_seed(0),
    ).images
    return {"pictures": pictures}


def case_saved_and_loaded() -> dict:
    import tempfile

    model = unet()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = UNet2DModel.from_pretrained(folder)
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        return {"here": model(x, 3).sample, "again": again(x, 3).sample, "dtype": str(again.dtype)}

"""Programs in the manner of the tutorials, on pictures: GAN, VAE, segmentation, classification in mixed precision,
features."""

from __future__ import annotations

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

NEEDS = ""
TOLERANCE = 1e-3   # batch norm over small batches magnifies rounding


def case_dcgan() -> dict:
    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh())
    critic = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid())

    def initialise(module: nn.Module) -> None:
        kind = module.__class__.__name__
        if kind.find("Conv") != -1:
            nn.init.normal_(module.weight.data, 0.0, 0.02)
        elif kind.find("BatchNorm") != -1:
            nn.init.normal_(module.weight.data, 1.0, 0.02)
            nn.init.constant_(module.bias.data, 0)

    generator.apply(initialise)
    critic.apply(initialise)
    criterion = nn.BCELoss()
    for_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
    for_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    real, history = torch.rand(8, 3, 16, 16) * 2 - 1, []
    for _ in range(4):
        critic.zero_grad()
        label = torch.full((8,), 1.0)
        error_real = criterion(critic(real).view(-1), label)
        error_real.backward()
        fake = generator(torch.randn(8, 8, 1, 1))
        label.fill_(0.0)
        error_fake = criterion(critic(fake.detach()).view(-1), label)
        error_fake.backward()
        for_critic.step()
        generator.zero_grad()
        label.fill_(1.0)
        error = criterion(critic(fake).view(-1), label)
        error.backward()
        for_generator.step()
        history.append([error_real.item(), error_fake.item(), error.item()])
    return {"history": history, "fake": fake, "running": critic[3].running_var}


def case_gradient_penalty() -> dict:
    critic = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.InstanceNorm2d(4, affine=True), nn.SiLU(), nn.Flatten(), nn.Linear(64, 1)
    )
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    real, fake, losses = torch.randn(4, 1, 8, 8), torch.rand(4, 1, 8, 8), []
    for _ in range(4):
        weight = torch.rand(4, 1, 1, 1)
        between = (weight * real + (1 - weight) * fake).requires_grad_(True)
        scores = critic(between)
        slope, = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "grads": [p.grad for p in critic.parameters()]}


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.mean, self.log_variance = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.up, self.out = nn.Linear(4, 32), nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> tuple:
        h = F.relu(self.hidden(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.out(F.relu(self.up(z)))), mean, log_variance


def case_vae() -> dict:
    model, pictures, losses = VAE(), torch.rand(16, 64), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        rebuilt, mean, log_variance = model(pictures)
        loss = F.binary_cross_entropy(rebuilt, pictures, reduction="sum") - 0.5 * torch.sum(
            1 + log_variance - mean.pow(2) - log_variance.exp()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        sampled = torch.sigmoid(model.out(F.relu(model.up(torch.randn(3, 4)))))
    return {"losses": losses, "sampled": sampled}


def double(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
                         nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first, self.second, self.bottom = double(3, 8), double(8, 16), double(16, 16)
        self.up, self.left, self.right = nn.ConvTranspose2d(16, 16, 2, stride=2), double(32, 8), double(16, 8)
        self.head = nn.Conv2d(8, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = self.left(torch.cat([self.up(self.bottom(F.max_pool2d(b, 2))), b], dim=1))
        c = F.interpolate(c, size=a.shape[-2:], mode="bilinear", align_corners=True)
        return self.head(self.right(torch.cat([c, a], dim=1)))


def case_unet_segmentation() -> dict:
    model, losses, overlaps = UNet(3), [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=6)
    pictures, masks = torch.rand(2, 3, 20, 20), torch.randint(3, (2, 20, 20))
    masks[0, :2] = 255
    for _ in range(6):
        scores = model(pictures)
        chance, hot = scores.softmax(1), F.one_hot(masks.clamp(max=2), 3).permute(0, 3, 1, 2).float()
        dice = 2 * (chance * hot).sum((0, 2, 3)) / (chance + hot).sum((0, 2, 3))
        loss = F.cross_entropy(scores, masks, weight=torch.tensor([0.5, 1.0, 2.0]), ignore_index=255) + 1 - dice.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        overlaps.append(dice)
    return {"losses": losses, "dice": overlaps, "rate": schedule.get_last_lr()}


def case_mixed_precision_training() -> dict:
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler, losses, kinds = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2), [], []
    pictures, labels = torch.randn(16, 1, 8, 8), torch.randint(10, (16,))
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            scores = model(pictures)
            loss = F.cross_entropy(scores, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if step == 3:
            model[0].weight.grad[0] = float("inf")   # the scaler skips this step and halves its scale
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        losses.append(round(loss.item(), 1))
        kinds.append([str(scores.dtype), str(loss.dtype), scaler.get_scale()])
    return {"losses": losses, "kinds": kinds, "state": scaler.state_dict()}


def case_features_by_hooks() -> dict:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    seen, slopes, order = {}, {}, []

    def keep(name: str) -> object:
        def hook(module: nn.Module, inputs: tuple, output: torch.Tensor) -> None:
            seen[name] = output.detach()
            order.append(name)
        return hook

    handles = [
        module.register_forward_hook(keep(name))
        for name, module in model.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    model[3].register_full_backward_hook(
        lambda module, inside, outside: slopes.update(inside=inside[0], outside=outside[0])
    )
    model[7].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    picture = torch.randn(2, 3, 12, 12, requires_grad=True)
    scores = model(picture)
    scores[:, scores.mean(0).argmax()].sum().backward()
    weights = slopes["outside"].mean((2, 3), keepdim=True)   # Grad-CAM
    map_ = F.interpolate(F.relu((weights * seen["3"]).sum(1, keepdim=True)), size=12, mode="bicubic")
    for handle in handles:
        handle.remove()
    model(picture)
    return {"seen": seen, "slopes": slopes, "map": map_, "order": order, "saliency": picture.grad.abs().amax(1)}


def case_transfer_learning() -> dict:
    trunk = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    model = nn.Sequential(trunk, nn.Linear(32, 2))
    for parameter in trunk.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    pictures, labels, best, best_state, history = torch.randn(12, 3, 8, 8), torch.randint(2, (12,)), 0.0, None, []
    for _ in range(5):
        for phase in ("train", "val"):
            model.train(phase == "train")
            with torch.set_grad_enabled(phase == "train"):
                scores = model(pictures)
                loss = F.cross_entropy(scores, labels)
                if phase == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            right = torch.sum(scores.argmax(1) == labels.data).double() / len(labels)
            history.append([loss.item(), right.item()])
            if phase == "val" and right > best:
                best, best_state = right, copy.deepcopy(model.state_dict())
        schedule.step()
    model.load_state_dict(best_state)
    return {"history": history, "best": best, "state": dict(model.state_dict())}


def case_neural_style() -> dict:
    layers, picture = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 8, 3, padding=1)
    ).requires_grad_(False), torch.rand(1, 3, 12, 12)
    style, content = layers(torch.rand(1, 3, 12, 12)).flatten(2), layers(picture)
    gram = style @ style.transpose(1, 2) / style[0].numel()
    picture = picture.clone().requires_grad_(True)
    optimizer, losses = torch.optim.LBFGS([picture], max_iter=6, line_search_fn="strong_wolfe"), []

    def closure() -> torch.Tensor:
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        features = layers(picture)
        flat = features.flatten(2)
        loss = F.mse_loss(flat @ flat.transpose(1, 2) / flat[0].numel(), gram) * 10 + F.mse_loss(features, content)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return {"first": losses[:4], "lowest": min(losses), "picture": picture.detach().clamp(0, 1).mean((2, 3))}

// Two networks against each other: one draws images, the other tells them from the real ones (smooth blobs made here).
//   ./dcgan [steps]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

constexpr int64_t kNoise = 32;
constexpr int64_t kBatch = 16;

struct DCGANGeneratorImpl : torch::nn::Module {
  explicit DCGANGeneratorImpl(int kNoiseSize)
      : conv1(torch::nn::ConvTranspose2dOptions(kNoiseSize, 64, 4).bias(false)),
        batch_norm1(64),
        conv2(torch::nn::ConvTranspose2dOptions(64, 32, 3).stride(2).padding(1).bias(false)),
        batch_norm2(32),
        conv3(torch::nn::ConvTranspose2dOptions(32, 16, 4).stride(2).padding(1).bias(false)),
        batch_norm3(16),
        conv4(torch::nn::ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("conv4", conv4);
    register_module("batch_norm1", batch_norm1);
    register_module("batch_norm2", batch_norm2);
    register_module("batch_norm3", batch_norm3);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(batch_norm1(conv1(x)));
    x = torch::relu(batch_norm2(conv2(x)));
    x = torch::relu(batch_norm3(conv3(x)));
    return torch::tanh(conv4(x));
  }

  torch::nn::ConvTranspose2d conv1;
  torch::nn::BatchNorm2d batch_norm1;
  torch::nn::ConvTranspose2d conv2;
  torch::nn::BatchNorm2d batch_norm2;
  torch::nn::ConvTranspose2d conv3;
  torch::nn::BatchNorm2d batch_norm3;
  torch::nn::ConvTranspose2d conv4;
};
TORCH_MODULE(DCGANGenerator);

torch::nn::Sequential make_discriminator() {
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 4).stride(2).padding(1).bias(false)),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 4).stride(2).padding(1).bias(false)),
      torch::nn::BatchNorm2d(32),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 4).stride(2).padding(1).bias(false)),
      torch::nn::BatchNorm2d(64),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 1, 3).stride(1).padding(0).bias(false)),
      torch::nn::Sigmoid());
}

torch::Tensor real_images(int64_t count, torch::Device device) {
  const auto axis = torch::linspace(-1, 1, 28);
  const auto at = torch::rand({count, 2, 1, 1}) - 0.5;
  const auto x = axis.view({1, 1, 28}) - at.select(1, 0), y = axis.view({1, 28, 1}) - at.select(1, 1);
  return (torch::exp(-8 * (x * x + y * y)) * 2 - 1).unsqueeze(1).to(device);
}

int main(int argc, const char* argv[]) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 60;
  torch::manual_seed(1);
  torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  DCGANGenerator generator(kNoise);
  generator->to(device);
  torch::nn::Sequential discriminator = make_discriminator();
  discriminator->to(device);

  torch::optim::Adam generator_optimizer(generator->parameters(), torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.5)));
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(), torch::optim::AdamOptions(5e-4).betas(std::make_tuple(0.5, 0.5)));
  torch::Tensor d_loss, g_loss;
  for (int step = 1; step <= steps; ++step) {
    discriminator->zero_grad();
    auto real = real_images(kBatch, device);
    auto real_labels = torch::empty(kBatch, device).uniform_(0.8, 1.0);
    auto real_output = discriminator->forward(real).reshape(real_labels.sizes());
    auto d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
    d_loss_real.backward();

    auto noise = torch::randn({kBatch, kNoise, 1, 1}, device);
    auto fake = generator->forward(noise);
    auto fake_labels = torch::zeros(kBatch, device);
    auto fake_output = discriminator->forward(fake.detach()).reshape(fake_labels.sizes());
    auto d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
    d_loss_fake.backward();
    d_loss = d_loss_real + d_loss_fake;
    discriminator_optimizer.step();

    generator->zero_grad();
    fake_labels.fill_(1);
    fake_output = discriminator->forward(fake).reshape(fake_labels.sizes());
    g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
    g_loss.backward();
    generator_optimizer.step();
    if (step % 20 == 0) std::cout << "step " << step << ", discriminator " << d_loss.item<float>() << ", generator " << g_loss.item<float>() << "\n";
  }
  std::cout << generator << "\n";
  return d_loss.isfinite().item<bool>() && g_loss.isfinite().item<bool>() ? 0 : 1;
}

// A convolutional network for digits, trained in C++. The digits are drawn here: seven segments, shifted, with noise.
//   ./mnist [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <tuple>
#include <vector>

constexpr int64_t kBatch = 64;
constexpr int64_t kTrain = 2048;
constexpr int64_t kTest = 512;

struct Net : torch::nn::Module {
  Net()
      : conv1(torch::nn::Conv2dOptions(1, 10, /*kernel_size=*/5)),
        conv2(torch::nn::Conv2dOptions(10, 20, /*kernel_size=*/5)),
        fc1(320, 50),
        fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
    x = x.view({-1, 320});
    x = torch::relu(fc1->forward(x));
    x = torch::dropout(x, /*p=*/0.5, /*train=*/is_training());
    x = fc2->forward(x);
    return torch::log_softmax(x, /*dim=*/1);
  }

  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};

// Images of 28 by 28 and their labels.
std::pair<torch::Tensor, torch::Tensor> digits(int64_t count) {
  static const int lit[10] = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110, 0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};
  static const int64_t places[7][4] = {{5, 8, 7, 20}, {5, 8, 14, 10}, {5, 18, 14, 20}, {13, 8, 15, 20}, {14, 8, 23, 10}, {14, 18, 23, 20}, {21, 8, 23, 20}};
  static const int order[7] = {0, 1, 2, 3, 4, 5, 6};
  auto labels = torch::randint(10, {count}, torch::kLong);
  auto images = torch::rand({count, 1, 28, 28}) * 0.3;
  auto shifts = torch::randint(-3, 4, {count, 2}, torch::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = labels[i].item<int64_t>(), down = shifts[i][0].item<int64_t>(), right = shifts[i][1].item<int64_t>();
    for (int segment : order) {
      if (!(lit[label] >> segment & 1)) continue;
      const auto& p = places[segment];
      images[i][0].slice(0, p[0] + down, p[2] + down).slice(1, p[1] + right, p[3] + right).fill_(1.0);
    }
  }
  return {images.sub_(0.1307).div_(0.3081), labels};
}

void train(size_t epoch, Net& model, torch::Device device, const torch::Tensor& images, const torch::Tensor& labels, torch::optim::Optimizer& optimizer) {
  model.train();
  const auto order = torch::randperm(images.size(0), torch::kLong);
  double last = 0;
  for (int64_t start = 0; start + kBatch <= images.size(0); start += kBatch) {
    const auto chosen = order.slice(0, start, start + kBatch);
    auto data = images.index_select(0, chosen).to(device), targets = labels.index_select(0, chosen).to(device);
    optimizer.zero_grad();
    auto loss = torch::nll_loss(model.forward(data), targets);
    AT_ASSERT(!std::isnan(loss.template item<float>()));
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  std::cout << "epoch " << epoch << ", loss " << last << "\n";
}

double test(Net& model, torch::Device device, const torch::Tensor& images, const torch::Tensor& labels) {
  torch::NoGradGuard no_grad;
  model.eval();
  auto output = model.forward(images.to(device));
  const auto loss = torch::nll_loss(output, labels.to(device), /*weight=*/{}, torch::Reduction::Mean).item<double>();
  const auto correct = output.argmax(1).eq(labels.to(device)).sum().item<int64_t>();
  const double accuracy = static_cast<double>(correct) / static_cast<double>(images.size(0));
  std::cout << "test loss " << loss << ", accuracy " << accuracy << "\n";
  return accuracy;
}

int main(int argc, char** argv) {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 4;
  torch::manual_seed(1);
  torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  Net model;
  model.to(device);
  const auto [images, labels] = digits(kTrain);
  const auto [test_images, test_labels] = digits(kTest);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.02).momentum(0.5));
  double accuracy = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    train(static_cast<size_t>(epoch), model, device, images, labels, optimizer);
    accuracy = test(model, device, test_images, test_labels);
  }
  return epochs < 4 || accuracy > 0.9 ? 0 : 1;
}

// torch::data: datasets that are read a chunk at a time, and streams; each check prints its name. Compiled against PyTorch
// 2.13 it prints the same lines, the random order too, up to the chunks after one that failed: PyTorch stops there.
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <set>
#include <sstream>
#include <thread>

namespace data = torch::data;
namespace datasets = torch::data::datasets;
namespace samplers = torch::data::samplers;
static void holds(bool condition, const std::string& name) { std::cout << name << (condition ? ": ok" : ": FAILED") << std::endl; }

// Chunks of 10, 5 and 20 numbers, 0 to 34; a fourth is empty. The one numbered `broken` throws.
struct Reader : datasets::ChunkDataReader<int> {
  using BatchType = datasets::ChunkDataReader<int>::ChunkType;
  using DataType = datasets::ChunkDataReader<int>::ExampleType;
  explicit Reader(int broken = -1, bool is_slow = false) : broken(broken), is_slow(is_slow) {}
  BatchType read_chunk(size_t chunk) override {
    static const std::vector<std::pair<int, int>> parts{{0, 10}, {10, 15}, {15, 35}, {0, 0}};
    if (static_cast<int>(chunk) == broken) throw std::runtime_error("chunk " + std::to_string(chunk) + " cannot be read");
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(3 * (4 - chunk)));
    BatchType made;
    for (int i = parts[chunk].first; i < parts[chunk].second; ++i) made.push_back(i);
    return made;
  }
  size_t chunk_count() override { return 4; }
  void reset() override { ++*resets; }
  std::shared_ptr<std::atomic<int>> resets = std::make_shared<std::atomic<int>>(0);
  int broken;
  bool is_slow;
};
using Ordered = datasets::ChunkDataset<Reader, samplers::SequentialSampler, samplers::SequentialSampler>;
using Mixed = datasets::ChunkDataset<Reader>;
using Options = datasets::ChunkDatasetOptions;

static auto ordered(Reader reader, Options options, std::function<void(std::vector<int>&)> policy = {}) {
  return datasets::make_shared_dataset<Ordered>(reader, samplers::SequentialSampler(0), samplers::SequentialSampler(0), options, policy);
}
static std::vector<int> numbers(int count) {
  std::vector<int> all(count);
  for (int i = 0; i < count; ++i) all[i] = i;
  return all;
}
// The examples one after another, and the sizes of the batches.
template <class Loader>
static std::pair<std::vector<int>, std::vector<size_t>> walked(Loader& loader) {
  std::pair<std::vector<int>, std::vector<size_t>> found;
  for (auto& batch : loader) {
    found.first.insert(found.first.end(), batch.begin(), batch.end());
    found.second.push_back(batch.size());
  }
  return found;
}
template <class T>
static T sorted(T list) {
  std::sort(list.begin(), list.end());
  return list;
}

static void check_order() {
  Reader reader;
  auto dataset = ordered(reader, Options(1, 8));
  auto loader = data::make_data_loader(dataset, data::DataLoaderOptions(8).workers(0));
  auto first = walked(*loader), second = walked(*loader);
  holds(first.first == numbers(35) && first == second, "batches go on over chunks, twice");
  holds(first.second == std::vector<size_t>{8, 8, 8, 8, 3}, "the last batch is short");
  holds(*reader.resets == 2, "the reader is told of each walk");
  holds(!dataset->size() && !dataset->get_batch(8) && !dataset->get_batch(), "nothing after the end");
  dataset->reset();
  holds(dataset->get_batch()->size() == 8 && dataset->get_batch(8)->at(0) == 8, "batches without a loader");
  for (size_t batch_size : {1, 5, 7, 40}) {
    auto each = data::make_data_loader(ordered(Reader(), Options(1, batch_size, batch_size)), data::DataLoaderOptions(batch_size));
    auto found = walked(*each);
    holds(found.first == numbers(35) && found.second.size() == (35 + batch_size - 1) / batch_size, "a cache of one batch of " + std::to_string(batch_size));
  }
  int seen = 0;
  for (auto& batch : *loader)
    if (batch.size() && ++seen == 2) break;
  holds(walked(*loader) == first, "a walk after one that was left");
}

static void check_threads() {
  auto dataset = ordered(Reader(-1, true), Options(3, 4, 8));
  auto loader = data::make_data_loader(dataset, data::DataLoaderOptions(4).workers(2));
  auto found = walked(*loader);
  holds(sorted(found.first) == numbers(35) && sorted(found.second) == std::vector<size_t>{3, 4, 4, 4, 4, 4, 4, 4, 4}, "preloaders and workers");
  holds(sorted(walked(*loader).first) == numbers(35), "preloaders and workers, again");
  { auto left = ordered(Reader(), Options(2, 2, 2)); left->reset(); }
  holds(true, "a dataset left while its preloaders wait");
}

static void check_samplers() {
  torch::manual_seed(5);
  auto random = [](size_t together) { return datasets::make_shared_dataset<Mixed>(Reader(), samplers::RandomSampler(0), samplers::RandomSampler(0), Options(1, 35, 64, together)); };
  auto by_chunk = random(1);
  by_chunk->reset();
  auto one = *by_chunk->get_batch();
  std::cout << "order:";
  for (int i : one) std::cout << " " << i;
  std::cout << std::endl;
  // of a chunk the examples are side by side, in another order
  const auto place = std::find(one.begin(), one.end(), 12) - one.begin();
  std::set<int> near;
  for (auto i = std::max<std::ptrdiff_t>(0, place - 4); i < std::min<std::ptrdiff_t>(35, place + 5); ++i) near.insert(one[i]);
  holds(sorted(one) == numbers(35) && one != numbers(35) && near.count(10) && near.count(14), "chunks and examples at random");
  auto mixed = random(4);
  mixed->reset();
  auto all = *mixed->get_batch();
  bool is_mixed = false;
  for (size_t i = 0; i + 1 < all.size(); ++i) is_mixed |= (all[i] < 10) != (all[i + 1] < 10) && i > 10 && i < 24;
  holds(sorted(all) == numbers(35) && is_mixed, "examples of several chunks mixed");
  auto policy = ordered(Reader(), Options(1, 35, 64), [](std::vector<int>& chunk) { std::reverse(chunk.begin(), chunk.end()); });
  policy->reset();
  auto turned = *policy->get_batch();
  holds(turned.front() == 9 && turned[9] == 0 && turned.back() == 15, "a policy changes chunks");
}

static void check_errors() {
  auto loader = data::make_data_loader(ordered(Reader(1), Options(1, 10)), data::DataLoaderOptions(10).workers(0));
  std::string said;
  auto at = loader->begin();
  std::vector<int> seen = *at;
  try { ++at; } catch (const data::WorkerException& error) {
    try { std::rethrow_exception(error.original_exception); } catch (const std::runtime_error& original) { said = original.what(); }
  }
  holds(seen == numbers(10) && said == "chunk 1 cannot be read", "an error of a reader");
  auto dataset = ordered(Reader(1), Options(1, 10));
  dataset->reset();
  int failed = 0;
  std::vector<int> rest;
  for (int i = 0; i < 4; ++i)
    try {
      auto batch = dataset->get_batch();
      if (batch) rest.insert(rest.end(), batch->begin(), batch->end());
    } catch (const data::WorkerException&) { ++failed; }
  holds(failed == 1 && rest.size() == 30 && rest[10] == 15, "chunks after one that failed");
  auto threads = data::make_data_loader(ordered(Reader(2), Options(2, 5)), data::DataLoaderOptions(5).workers(2));
  bool refused = false;
  try { walked(*threads); } catch (const data::WorkerException& error) { refused = true; }
  holds(refused, "an error of a reader reaches past workers");
  auto throws = [](auto&& run) {
    try { run(); } catch (const c10::Error&) { return true; }
    return false;
  };
  holds(throws([] { Options(0, 1); }) && throws([] { Options(1, 0); }) && throws([] { Options(1, 1, 0); }) && throws([] { Options(1, 5, 3); }) && throws([] { Options(1, 5, 5, 0); }), "options are checked");
  holds(throws([] { ordered(Reader(), Options(1, 5))->get_batch(5); }), "a batch before reset");
  dataset->reset();
  holds(throws([&] { dataset->get_batch(9); }), "another batch size");
}

static void check_state() {
  auto dataset = datasets::make_shared_dataset<Mixed>(Reader(), samplers::RandomSampler(0), samplers::RandomSampler(0), Options(1, 5, 5));
  dataset->reset();
  std::set<int> seen;
  auto take = [](auto& from, std::set<int>& into) {
    while (auto batch = from->get_batch(5)) into.insert(batch->begin(), batch->end());
  };
  take(dataset, seen);
  std::stringstream stream;
  torch::save(*dataset, stream);
  auto other = datasets::make_shared_dataset<Mixed>(Reader(), samplers::RandomSampler(0), samplers::RandomSampler(0), Options(1, 5, 5));
  torch::load(*other, stream);
  other->reset();
  holds(seen.size() == 35 && !other->get_batch(5), "a saved place after every chunk");
  other->reset();
  take(other, seen = {});
  holds(seen.size() == 35, "the walk after it is whole");
  other->chunk_sampler().reset(2);
  holds(other->chunk_sampler().next(9)->size() == 2, "its chunk sampler");
}

// Examples of tensors, stacked by a transform, from threads that make tensors.
struct TensorReader : datasets::ChunkDataReader<data::Example<>> {
  std::vector<data::Example<>> read_chunk(size_t chunk) override {
    std::vector<data::Example<>> made;
    for (int i = 0; i < 3; ++i) made.emplace_back(torch::full({2}, static_cast<double>(chunk)), torch::tensor(static_cast<int64_t>(3 * chunk + i)));
    return made;
  }
  using BatchType = std::vector<data::Example<>>;
  size_t chunk_count() override { return 7; }
  void reset() override {}
};
struct Counting : datasets::StreamDataset<Counting, std::vector<int>> {
  std::vector<int> get_batch(size_t size) override { return std::vector<int>(size, calls++); }
  std::optional<size_t> size() const override { return std::nullopt; }
  int calls = 0;
};

static void check_tensors() {
  auto dataset = datasets::make_shared_dataset<datasets::ChunkDataset<TensorReader>>(TensorReader(), samplers::RandomSampler(0), samplers::RandomSampler(0), Options(2, 4)).map(data::transforms::Stack<>());
  auto loader = data::make_data_loader(dataset, data::DataLoaderOptions(4).workers(2));
  std::vector<int64_t> targets;
  bool is_right = true;
  for (auto& batch : *loader)
    for (int64_t i = 0; i < batch.target.numel(); ++i) {
      targets.push_back(batch.target[i].item<int64_t>());
      is_right &= batch.data[i][1].item<double>() == static_cast<double>(targets.back() / 3);
    }
  std::sort(targets.begin(), targets.end());
  holds(is_right && targets.size() == 21 && targets.front() == 0 && targets.back() == 20, "tensors, stacked");
  auto stream = data::make_data_loader(Counting(), samplers::StreamSampler(7), data::DataLoaderOptions(3));
  holds(walked(*stream).second == std::vector<size_t>{3, 3, 1}, "a stream");
}

int main() {
  check_order();
  check_threads();
  check_samplers();
  check_errors();
  check_state();
  check_tensors();
  std::cout << "end" << std::endl;
}

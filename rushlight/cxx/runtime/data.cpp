// torch::data: MNIST's files, and samplers.
#include <rushlight/data/loader.h>
#include <rushlight/python.h>

#include <fstream>
#include <numeric>
#include <random>

namespace rushlight {
void without_lock(const std::function<void()>& run) {
  Unlocked region;
  run();
}
}  // namespace rushlight

namespace torch::data::datasets {

namespace {

// A file of the set: a number of its kind, the sizes, and a byte for each element.
at::Tensor bytes_of(const std::string& path, uint32_t kind, std::vector<int64_t> sizes) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "MNIST: cannot open ", path);
  auto number = [&] {
    unsigned char four[4] = {};
    file.read(reinterpret_cast<char*>(four), 4);
    return uint32_t{four[0]} << 24 | uint32_t{four[1]} << 16 | uint32_t{four[2]} << 8 | four[3];
  };
  const uint32_t found = number();
  TORCH_CHECK(found == kind, "MNIST: ", path, " begins with ", found, ", not with ", kind);
  for (int64_t& size : sizes) {
    const uint32_t said = number();
    TORCH_CHECK(size < 0 || size == said, "MNIST: ", path, " has a size of ", said, ", expected ", size);
    size = said;
  }
  TORCH_CHECK(file, "MNIST: ", path, " ends within its head");
  const auto start = file.tellg();
  file.seekg(0, std::ios::end);
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  TORCH_CHECK(file.tellg() - start == count, "MNIST: expected ", count, " bytes after the head of ", path, ", got ", file.tellg() - start);
  file.seekg(start);
  at::Tensor made = at::empty(sizes, c10::kByte);
  TORCH_CHECK(file.read(static_cast<char*>(made.data_ptr()), count), "MNIST: ", path, " cannot be read");
  return made;
}

}  // namespace

MNIST::MNIST(const std::string& root, Mode mode) : is_train_(mode == Mode::kTrain) {
  const std::string start = root + (root.empty() || root.back() == '/' ? "" : "/") + (is_train_ ? "train" : "t10k");
  const int64_t count = is_train_ ? 60000 : 10000;
  images_ = bytes_of(start + "-images-idx3-ubyte", 2051, {count, 28, 28}).to(c10::kFloat).div_(255).unsqueeze(1);
  targets_ = bytes_of(start + "-labels-idx1-ubyte", 2049, {count}).to(c10::kLong);
}
Example<> MNIST::get(size_t index) { return {images_[static_cast<int64_t>(index)], targets_[static_cast<int64_t>(index)]}; }
std::optional<size_t> MNIST::size() const { return static_cast<size_t>(images_.size(0)); }

}  // namespace torch::data::datasets

namespace torch::data::samplers {

namespace {
void write_number(serialize::OutputArchive& archive, const char* name, size_t value) { archive.write(name, c10::IValue(static_cast<int64_t>(value))); }
size_t read_number(serialize::InputArchive& archive, const char* name) {
  c10::IValue value;
  archive.read(name, value);
  return static_cast<size_t>(value.toInt());
}
}  // namespace

RandomSampler::RandomSampler(int64_t size, at::ScalarType index_dtype) : indices_(at::randperm(size, at::TensorOptions(index_dtype))) {}
void RandomSampler::reset(std::optional<size_t> new_size) {
  const int64_t size = new_size ? static_cast<int64_t>(*new_size) : indices_.numel();
  indices_ = at::randperm(size, at::TensorOptions(indices_.scalar_type()));
  index_ = 0;
}
std::optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  const int64_t count = std::min(static_cast<int64_t>(batch_size), indices_.numel() - index_);
  if (count <= 0) return std::nullopt;
  const at::Tensor part = indices_.slice(0, index_, index_ + count).to(c10::kLong).contiguous();
  index_ += count;
  const int64_t* first = part.const_data_ptr<int64_t>();
  return std::vector<size_t>(first, first + count);
}
void RandomSampler::save(serialize::OutputArchive& archive) const {
  write_number(archive, "index", index());
  archive.write("indices", indices_, true);
}
void RandomSampler::load(serialize::InputArchive& archive) {
  index_ = static_cast<int64_t>(read_number(archive, "index"));
  indices_ = at::Tensor();
  archive.read("indices", indices_, true);
}

void SequentialSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, size_ - index_);
  if (!count) return std::nullopt;
  std::vector<size_t> made(count);
  std::iota(made.begin(), made.end(), index_);
  index_ += count;
  return made;
}
void SequentialSampler::save(serialize::OutputArchive& archive) const { write_number(archive, "index", index_); }
void SequentialSampler::load(serialize::InputArchive& archive) { index_ = read_number(archive, "index"); }

void StreamSampler::reset(std::optional<size_t> new_size) {
  epoch_size_ = new_size.value_or(epoch_size_);
  given_ = 0;
}
std::optional<BatchSize> StreamSampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, epoch_size_ - given_);
  if (!count) return std::nullopt;
  given_ += count;
  return BatchSize(count);
}
void StreamSampler::save(serialize::OutputArchive& archive) const { write_number(archive, "examples_retrieved_so_far", given_); }
void StreamSampler::load(serialize::InputArchive& archive) { given_ = read_number(archive, "examples_retrieved_so_far"); }

DistributedSampler::DistributedSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : size_(size), num_replicas_(num_replicas), rank_(rank), allow_duplicates_(allow_duplicates) {
  TORCH_CHECK_VALUE(rank < num_replicas, "DistributedSampler: expected a rank below ", num_replicas, ", got ", rank);
}
size_t DistributedSampler::local_count() const { return (size_ + (allow_duplicates_ ? num_replicas_ - 1 : 0)) / num_replicas_; }
void DistributedSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  const size_t count = local_count();
  std::vector<size_t> all(std::max(size_, count * num_replicas_));
  for (size_t i = 0; i < all.size(); ++i) all[i] = i % std::max<size_t>(size_, 1);
  arrange(all);
  own_.assign(all.begin() + static_cast<std::ptrdiff_t>(rank_ * count), all.begin() + static_cast<std::ptrdiff_t>((rank_ + 1) * count));
  at_ = 0;
}
std::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, own_.size() - at_);
  if (!count) return std::nullopt;
  const auto first = own_.begin() + static_cast<std::ptrdiff_t>(at_);
  at_ += count;
  return std::vector<size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}
void DistributedSampler::save(serialize::OutputArchive& archive) const {
  write_number(archive, "sample_index_", at_);
  write_number(archive, "epoch_", epoch_);
}
void DistributedSampler::load(serialize::InputArchive& archive) {
  epoch_ = read_number(archive, "epoch_");
  reset(size_);
  at_ = read_number(archive, "sample_index_");
}
DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) { reset(size); }
void DistributedRandomSampler::arrange(std::vector<size_t>& all) const {
  std::mt19937 source(static_cast<uint32_t>(epoch_));
  std::shuffle(all.begin(), all.end(), source);
}
DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) { reset(size); }
void DistributedSequentialSampler::arrange(std::vector<size_t>&) const {}

}  // namespace torch::data::samplers

// The order in which examples are asked for.
#pragma once
#include <rushlight/serialize.h>

namespace torch::data::samplers {

template <class BatchRequest = std::vector<size_t>>
class Sampler {
 public:
  using BatchRequestType = BatchRequest;
  virtual ~Sampler() = default;
  virtual void reset(std::optional<size_t> new_size) = 0;      // begin anew
  void reset() { reset(std::nullopt); }
  virtual std::optional<BatchRequest> next(size_t batch_size) = 0;      // nothing at the end
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

// A new order each time, of torch's generator.
class RandomSampler : public Sampler<> {
 public:
  explicit RandomSampler(int64_t size, at::ScalarType index_dtype = c10::kLong);
  using Sampler<>::reset;
  void reset(std::optional<size_t> new_size) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  size_t index() const noexcept { return static_cast<size_t>(index_); }

 private:
  at::Tensor indices_;
  int64_t index_ = 0;
};

class SequentialSampler : public Sampler<> {
 public:
  explicit SequentialSampler(size_t size) : size_(size) {}
  using Sampler<>::reset;
  void reset(std::optional<size_t> new_size) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  size_t index() const noexcept { return index_; }

 private:
  size_t size_, index_ = 0;
};

// How many examples a stream is asked for, rather than which.
class BatchSize {
 public:
  BatchSize(size_t size) : size_(size) {}
  size_t size() const noexcept { return size_; }
  operator size_t() const noexcept { return size_; }

 private:
  size_t size_;
};
class StreamSampler : public Sampler<BatchSize> {
 public:
  explicit StreamSampler(size_t epoch_size) : epoch_size_(epoch_size) {}
  using Sampler<BatchSize>::reset;
  void reset(std::optional<size_t> new_size) override;
  std::optional<BatchSize> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;

 private:
  size_t epoch_size_, given_ = 0;
};

// The part of one process of several. All have equally many: some of the first are given twice, or the last left out.
class DistributedSampler : public Sampler<> {
 public:
  DistributedSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates);
  using Sampler<>::reset;
  void reset(std::optional<size_t> new_size) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  void set_epoch(size_t epoch) { epoch_ = epoch; }
  size_t epoch() const { return epoch_; }
  size_t index() const noexcept { return at_; }

 protected:
  size_t local_count() const;
  virtual void arrange(std::vector<size_t>& all) const = 0;      // of every process
  size_t size_, num_replicas_, rank_, epoch_ = 0, at_ = 0;
  bool allow_duplicates_;
  std::vector<size_t> own_;
};
class DistributedRandomSampler : public DistributedSampler {      // the order follows the epoch
 public:
  explicit DistributedRandomSampler(size_t size, size_t num_replicas = 1, size_t rank = 0, bool allow_duplicates = true);

 private:
  void arrange(std::vector<size_t>& all) const override;
};
class DistributedSequentialSampler : public DistributedSampler {
 public:
  explicit DistributedSequentialSampler(size_t size, size_t num_replicas = 1, size_t rank = 0, bool allow_duplicates = true);

 private:
  void arrange(std::vector<size_t>& all) const override;
};

}  // namespace torch::data::samplers

// Where examples come from.
#pragma once
#include <rushlight/data/transforms.h>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}

namespace torch::data::datasets {

namespace detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
}  // namespace detail

template <class Source, class Applied>
class MapDataset;
template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform);

// Gives batches; what is asked for is a list of indices, unless a type of its own says otherwise.
template <class Self, class Batch, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  static constexpr bool is_stateful = detail::IsOptional<Batch>::value;
  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  virtual std::optional<size_t> size() const = 0;
  template <class T>
  MapDataset<Self, T> map(T transform) & { return datasets::map(static_cast<Self&>(*this), std::move(transform)); }
  template <class T>
  MapDataset<Self, T> map(T transform) && { return datasets::map(std::move(static_cast<Self&>(*this)), std::move(transform)); }
};

// Gives one example by its index.
template <class Self, class Single = Example<>>
class Dataset : public BatchDataset<Self, std::vector<Single>> {
 public:
  using ExampleType = Single;
  virtual Single get(size_t index) = 0;
  std::vector<Single> get_batch(ArrayRef<size_t> indices) override {
    std::vector<Single> batch;
    batch.reserve(indices.size());
    for (size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

// Keeps its own place and ends by itself: get_batch gives nothing then.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, std::optional<Batch>, BatchRequest> {
 public:
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

// Without an end or indices: it is asked for a number of examples.
template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

// A dataset whose batches pass a transform.
template <class Source, class Applied>
class MapDataset : public BatchDataset<MapDataset<Source, Applied>,
                                       std::conditional_t<Source::is_stateful, std::optional<typename Applied::OutputBatchType>, typename Applied::OutputBatchType>,
                                       typename Source::BatchRequestType> {
 public:
  using DatasetType = Source;
  using TransformType = Applied;
  using BatchRequestType = typename Source::BatchRequestType;
  using OutputBatchType = std::conditional_t<Source::is_stateful, std::optional<typename Applied::OutputBatchType>, typename Applied::OutputBatchType>;
  MapDataset(Source dataset, Applied transform) : dataset_(std::move(dataset)), transform_(std::move(transform)) {}
  OutputBatchType get_batch(BatchRequestType request) override {
    auto batch = dataset_.get_batch(std::move(request));
    if constexpr (Source::is_stateful) {
      if (!batch) return std::nullopt;
      return transform_.apply_batch(std::move(*batch));
    } else {
      return transform_.apply_batch(std::move(batch));
    }
  }
  std::optional<size_t> size() const noexcept override { return dataset_.size(); }
  void reset() { dataset_.reset(); }
  const Source& dataset() const { return dataset_; }
  const Applied& transform() const { return transform_; }

 private:
  Source dataset_;
  Applied transform_;
};
template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform) { return {std::move(dataset), std::move(transform)}; }

// One dataset for all workers instead of a copy each.
template <class Unwrapped>
class SharedBatchDataset : public BatchDataset<SharedBatchDataset<Unwrapped>, typename Unwrapped::BatchType, typename Unwrapped::BatchRequestType> {
 public:
  explicit SharedBatchDataset(std::shared_ptr<Unwrapped> dataset) : dataset_(std::move(dataset)) {}
  typename Unwrapped::BatchType get_batch(typename Unwrapped::BatchRequestType request) override { return dataset_->get_batch(std::move(request)); }
  std::optional<size_t> size() const override { return dataset_->size(); }
  void reset() { dataset_->reset(); }
  Unwrapped& operator*() { return *dataset_; }
  const Unwrapped& operator*() const { return *dataset_; }
  Unwrapped* operator->() { return dataset_.get(); }
  const Unwrapped* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<Unwrapped> dataset_;
};
template <class Unwrapped, class... Args>
SharedBatchDataset<Unwrapped> make_shared_dataset(Args&&... args) { return SharedBatchDataset<Unwrapped>(std::make_shared<Unwrapped>(std::forward<Args>(args)...)); }

// The rows of a tensor.
struct TensorDataset : Dataset<TensorDataset, TensorExample> {
  explicit TensorDataset(at::Tensor tensor) : tensor(std::move(tensor)) {}
  explicit TensorDataset(const std::vector<at::Tensor>& tensors) : tensor(at::stack(tensors)) {}
  TensorExample get(size_t index) override { return tensor[static_cast<int64_t>(index)]; }
  std::optional<size_t> size() const override { return static_cast<size_t>(tensor.size(0)); }
  at::Tensor tensor;
};

// Handwritten digits, from the four files of the set in a folder: images of 1 x 28 x 28 between 0 and 1.
class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  std::optional<size_t> size() const override;
  bool is_train() const noexcept { return is_train_; }
  const at::Tensor& images() const { return images_; }
  const at::Tensor& targets() const { return targets_; }

 private:
  at::Tensor images_, targets_;
  bool is_train_;
};

}  // namespace torch::data::datasets

// What every layer is: a face over the Python layer of its name, which makes the parameters, draws them and computes.
#pragma once
#include <rushlight/nn/containers.h>

namespace rushlight::nn {

struct Face;      // the Python object
struct Adopted {  // a Python layer that is there already, as a part of another
  std::shared_ptr<Face> face;
};

class Layer : public torch::nn::Module {
 public:
  using Tensors = std::vector<std::pair<const char*, at::Tensor*>>;
  struct Part {                                         // a holder among the fields
    const char* name;
    std::function<void(const std::shared_ptr<torch::nn::Module>&)> set;
    std::function<std::shared_ptr<torch::nn::Module>()> get;
  };
  using Parts = std::vector<Part>;
  void pretty_print(std::ostream& stream) const override;
  void reset_parameters();                              // draws them anew
  std::shared_ptr<Face> face() const;                   // in step with what was assigned and set in C++

 protected:
  explicit Layer(const char* python_class) : Module(std::string("torch::nn::") + python_class), python_class_(python_class) {}
  void make();                                          // by the options
  void adopt(const Adopted& adopted);
  virtual std::vector<Field> options_fields() const { return {}; }
  virtual Tensors tensor_fields() { return {}; }
  virtual Parts part_fields() { return {}; }

 private:
  void hold(std::shared_ptr<Face> face);
  void follow() const;
  const char* python_class_;
  std::shared_ptr<Face> face_;
};

}  // namespace rushlight::nn

namespace torch::nn {
using at::Tensor;
namespace utils::rnn {

// Sequences of several lengths, step by step in one tensor.
class PackedSequence {
 public:
  PackedSequence() = default;
  explicit PackedSequence(at::Tensor data, at::Tensor batch_sizes, at::Tensor sorted_indices = {}, at::Tensor unsorted_indices = {});
  const at::Tensor& data() const { return data_; }
  const at::Tensor& batch_sizes() const { return batch_sizes_; }
  const at::Tensor& sorted_indices() const { return sorted_; }
  const at::Tensor& unsorted_indices() const { return unsorted_; }
  PackedSequence to(at::TensorOptions options) const { return PackedSequence(data_.to(options), batch_sizes_, moved(sorted_, options), moved(unsorted_, options)); }
  PackedSequence cpu() const { return to(at::TensorOptions(c10::kCPU)); }
  PackedSequence cuda() const { return to(at::TensorOptions(c10::kCUDA)); }
  bool is_cuda() const { return data_.is_cuda(); }

 private:
  static at::Tensor moved(const at::Tensor& t, const at::TensorOptions& o) { return t.defined() && o.has_device() ? t.to(o.device()) : t; }
  at::Tensor data_, batch_sizes_, sorted_, unsorted_;
};
PackedSequence pack_padded_sequence(at::Tensor input, at::Tensor lengths, bool batch_first = false, bool enforce_sorted = true);
std::tuple<at::Tensor, at::Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false, double padding_value = 0.0, std::optional<int64_t> total_length = std::nullopt);
at::Tensor pad_sequence(at::ArrayRef<at::Tensor> sequences, bool batch_first = false, double padding_value = 0, std::string_view padding_side = "right");
PackedSequence pack_sequence(at::ArrayRef<at::Tensor> sequences, bool enforce_sorted = true);

}  // namespace utils::rnn

struct ASMoutput {
  at::Tensor output;
  double loss;
};
}  // namespace torch::nn

// torch::nn::init and torch::nn::utils: what fills parameters and what treats them together.
#pragma once
#include <rushlight/nn/arguments.h>

namespace torch {
namespace nn::init {

using NonlinearityType = std::variant<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D, enumtype::kConvTranspose1D, enumtype::kConvTranspose2D, enumtype::kConvTranspose3D, enumtype::kSigmoid, enumtype::kTanh, enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = std::variant<enumtype::kFanIn, enumtype::kFanOut>;

double calculate_gain(const NonlinearityType& nonlinearity, double param = 0.01);
at::Tensor constant_(at::Tensor tensor, at::Scalar value);
at::Tensor dirac_(at::Tensor tensor);
at::Tensor eye_(at::Tensor matrix);
at::Tensor normal_(at::Tensor tensor, double mean = 0, double std = 1);
at::Tensor ones_(at::Tensor tensor);
at::Tensor orthogonal_(at::Tensor tensor, double gain = 1.0);
at::Tensor sparse_(at::Tensor tensor, double sparsity, double std = 0.01);
at::Tensor trunc_normal_(at::Tensor tensor, double mean = 0, double std = 1, double a = -2, double b = 2);
at::Tensor uniform_(at::Tensor tensor, double low = 0, double high = 1);
at::Tensor kaiming_normal_(at::Tensor tensor, double a = 0, const FanModeType& mode = torch::kFanIn, const NonlinearityType& nonlinearity = torch::kLeakyReLU);
at::Tensor kaiming_uniform_(at::Tensor tensor, double a = 0, const FanModeType& mode = torch::kFanIn, const NonlinearityType& nonlinearity = torch::kLeakyReLU);
at::Tensor xavier_normal_(at::Tensor tensor, double gain = 1.0);
at::Tensor xavier_uniform_(at::Tensor tensor, double gain = 1.0);
at::Tensor zeros_(at::Tensor tensor);
std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const at::Tensor& tensor);

}  // namespace nn::init

namespace nn::utils {

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2.0, bool error_if_nonfinite = false);
inline double clip_grad_norm_(const at::Tensor& parameter, double max_norm, double norm_type = 2.0, bool error_if_nonfinite = false) { return clip_grad_norm_(std::vector<at::Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite); }
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
inline void clip_grad_value_(const at::Tensor& parameter, double clip_value) { clip_grad_value_(std::vector<at::Tensor>{parameter}, clip_value); }
at::Tensor parameters_to_vector(const std::vector<at::Tensor>& parameters);
void vector_to_parameters(const at::Tensor& vector, const std::vector<at::Tensor>& parameters);

}  // namespace nn::utils
}  // namespace torch

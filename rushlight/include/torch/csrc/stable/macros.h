// STD_CUDA_CHECK: an error of CUDA's runtime becomes a std::runtime_error with where it was.
#pragma once
#include <rushlight/stable/values.h>

#define STD_CUDA_CHECK(call)                                                                                   \
  do {                                                                                                         \
    char* rushlight_message = nullptr;                                                                         \
    torch_c10_cuda_check_msg(static_cast<int32_t>(call), __FILE__, __func__, __LINE__, true, &rushlight_message); \
    if (rushlight_message) {                                                                                   \
      const std::string said(rushlight_message);                                                               \
      torch_c10_cuda_free_error_msg(rushlight_message);                                                        \
      throw std::runtime_error(said);                                                                          \
    }                                                                                                          \
  } while (false)
#define STD_CUDA_KERNEL_LAUNCH_CHECK() STD_CUDA_CHECK(cudaGetLastError())

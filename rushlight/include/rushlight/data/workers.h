// What threads of datasets and loaders share.
#pragma once
#include <exception>
#include <functional>
#include <string>

namespace rushlight {
void without_lock(const std::function<void()>& run);      // lets the interpreter lock go meanwhile, if this thread holds it
}

namespace torch::data {

// What a thread threw, on the thread that asks for batches.
struct WorkerException : std::exception {
  explicit WorkerException(std::exception_ptr original, const std::string& what = "a worker of the data loader failed") : message(what), original_exception(std::move(original)) {
    try {
      std::rethrow_exception(original_exception);
    } catch (const std::exception& error) {
      message += std::string(": ") + error.what();
    } catch (...) {      // it says nothing of itself
    }
  }
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  std::exception_ptr original_exception;
};

}  // namespace torch::data

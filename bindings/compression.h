// What compression is to Python, and what a call keeps of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bindings.h"
#include "data.h"
#include "square/communicator.h"
#include "square/compression.h"

namespace square::python {

// None stands for none.
using CompressionChoice = std::optional<std::variant<Compression, std::string>>;
// Raises InvalidArgumentError for a text that names none.
Compression chosen_compression(const CompressionChoice& choice);

// What one member did not send of one tensor so far. Used with the interpreter's lock.
class ErrorFeedback {
 public:
  ErrorFeedback() : values_(std::make_shared<std::vector<float>>()) {}
  explicit ErrorFeedback(std::vector<float> values)
      : values_(std::make_shared<std::vector<float>>(std::move(values))) {}

  // As many elements, zeros at the first use. Raises InvalidArgumentError for another number than at the
  // first use, FailedPreconditionError while another operation uses it.
  std::span<float> begin(std::size_t count);
  // `work` uses it from now on; keeps() is to live as long.
  void used_by(const std::shared_ptr<Work>& work) { user_ = work; }
  [[nodiscard]] std::shared_ptr<void> keeps() const { return values_; }

  [[nodiscard]] std::size_t size() const { return values_->size(); }
  [[nodiscard]] bool is_in_use() const;
  // These raise FailedPreconditionError while an operation uses it.
  [[nodiscard]] py::bytes bytes() const;
  [[nodiscard]] double norm() const;
  void reset();

 private:
  void check_idle() const;

  std::shared_ptr<std::vector<float>> values_;
  std::weak_ptr<Work> user_;
};

void bind_compression(py::module_& module);

}  // namespace square::python

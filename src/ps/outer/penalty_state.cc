// The penalty's state as text. Numbers are the shortest that read back as the same bits; a worker's name may
// be any bytes, so its length comes first:
//
//     square-penalty 1
//     window <scores> <score> ...
//     workers <count>
//     <taken> <excluded> <mean> <variance> <length> <name>
#include "ps/outer/penalty_state.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <utility>

#include "base/check.h"
#include "square/outer_optimizer.h"

namespace square::ps {
namespace {

constexpr std::string_view kPenaltyState = "square-penalty";
constexpr int kPenaltyVersion = 1;

// Reads words between single spaces or ends of lines. After a mistake all that it reads is empty.
class PenaltyReader {
 public:
  explicit PenaltyReader(std::string_view text) : text_(text) {}

  void expect(std::string_view word) {
    if (bytes(word.size()) != word) is_good_ = false;
  }
  template <typename Number>
  Number number(Number least, Number most) {
    Number value{};
    const char* const from = text_.data() + at_;
    const auto [end, error] = std::from_chars(from, text_.data() + text_.size(), value);
    // NaNs are within no bounds.
    if (!is_good_ || error != std::errc() || !(value >= least && value <= most)) {
      is_good_ = false;
      return least;
    }
    at_ += static_cast<std::size_t>(end - from);
    return value;
  }
  std::string_view bytes(std::size_t count) {
    if (!is_good_ || count > text_.size() - at_) {
      is_good_ = false;
      return {};
    }
    at_ += count;
    return text_.substr(at_ - count, count);
  }
  void end() {
    if (at_ != text_.size()) is_good_ = false;
  }
  [[nodiscard]] bool is_good() const { return is_good_; }
  [[nodiscard]] Status status() const {
    if (is_good_) return Status::ok();
    return invalid_argument(
        fmt::format("a penalty's state is not what save() writes, from byte {} of {}", at_, text_.size()));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  bool is_good_ = true;
};

}  // namespace

std::string Penalty::save() const {
  std::string text = fmt::format("{} {}\nwindow {}", kPenaltyState, kPenaltyVersion, window_.size());
  for (const double score : window_) text += fmt::format(" {}", score);
  text += fmt::format("\nworkers {}\n", workers_.size());
  for (const auto& [worker, known] : workers_) {
    text += fmt::format("{} {} {} {} {} {}\n", known.taken, known.excluded, known.mean, known.variance,
                        worker.size(), worker);
  }
  return text;
}

Result<Penalty> Penalty::load(OuterOptions options, std::string_view text) {
  SQUARE_RETURN_IF_ERROR(check(options));
  Penalty made(std::move(options));
  constexpr double kLargest = std::numeric_limits<double>::max();
  constexpr double kLargestMean = 2 * kLargestNorm;
  PenaltyReader reader(text);
  reader.expect(fmt::format("{} {}\nwindow ", kPenaltyState, kPenaltyVersion));
  const auto scores = reader.number<std::size_t>(0, Ewma::kLargestWindow);
  for (std::size_t i = 0; i < scores && reader.is_good(); ++i) {
    reader.expect(" ");
    const auto score = reader.number<double>(-kLargest, kLargest);
    if (made.options_.penalty) made.keep_score(score);
  }
  reader.expect("\nworkers ");
  const auto workers = reader.number<std::size_t>(0, kMostWorkers);
  reader.expect("\n");
  for (std::size_t i = 0; i < workers && reader.is_good(); ++i) {
    Statistics known;
    known.taken = reader.number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max() / 2);
    reader.expect(" ");
    known.excluded = reader.number<std::uint32_t>(0, Ewma::kExclusionsBeforeNewStart - 1);
    reader.expect(" ");
    known.mean = reader.number<double>(0, kLargestMean);
    reader.expect(" ");
    known.variance = reader.number<double>(0, kLargestMean * kLargestMean);
    reader.expect(" ");
    const auto length = reader.number<std::size_t>(0, text.size());
    reader.expect(" ");
    const std::string_view worker = reader.bytes(length);
    reader.expect("\n");
    if (!reader.is_good()) break;
    if (!made.workers_.emplace(worker, known).second)
      return invalid_argument(fmt::format("a penalty's state has the worker \"{}\" twice", worker));
  }
  reader.end();
  SQUARE_RETURN_IF_ERROR(reader.status());
  return made;
}

}  // namespace square::ps

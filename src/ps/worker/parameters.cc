#include "ps/worker/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "base/check.h"
#include "coding/compression/kernels.h"
#include "ps/data/parts.h"
#include "ps/layout.h"

namespace square::ps {
namespace {

// How long an earlier push may take to end by itself.
constexpr Duration kPushPatience = std::chrono::milliseconds(200);

bool do_overlap(const v1::PsShard& one, const v1::PsShard& other) {
  const v1::PsShard both = overlap(one, other);
  return both.begin() < both.end();
}

}  // namespace

Parameters::Parameters(std::uint64_t elements, DataLines& lines, Executor& strand)
    : lines_(lines), strand_(strand), base_(elements), set_aside_(elements), staged_(elements) {}

Parameters::~Parameters() { stop(); }

void Parameters::set_pushes(bool are_parameters, bool are_bfloat16) {
  are_parameters_ = are_parameters;
  are_bfloat16_ = are_bfloat16 && !are_parameters;
}

void Parameters::send_push(const v1::PsTransfer& transfer, Done done) {
  start(transfer, true, std::move(done));
}

void Parameters::take_version(const v1::PsTransfer& transfer, Done done) {
  start(transfer, false, std::move(done));
}

std::list<std::shared_ptr<Parameters::Transfer>> Parameters::take_those_over() {
  std::list<std::shared_ptr<Transfer>> over;
  for (auto one = transfers_.begin(); one != transfers_.end();) {
    const auto next = std::next(one);
    if ((*one)->is_over) over.splice(over.end(), transfers_, one);
    one = next;
  }
  return over;
}

void Parameters::start(const v1::PsTransfer& what, bool is_push, Done done) {
  const auto transfer = std::make_shared<Transfer>();
  transfer->what = what;
  transfer->is_push = is_push;
  std::list<std::shared_ptr<Transfer>> over;
  {
    const std::lock_guard lock(mutex_);
    over = take_those_over();
    // An earlier one of the same shard is over for the master, which may not have said so.
    for (const auto& other : transfers_) {
      if (!is_push && !other->is_push && do_overlap(other->what.shard(), what.shard())) cancel(*other);
    }
    if (!is_stopped_ && transfers_.size() < kMostTransfers) {
      transfers_.push_back(transfer);
      transfer->thread = std::thread([this, transfer, done] {
        const Status status = run(*transfer);
        strand_.post([done, status] { done(status); });
        const std::lock_guard ending(mutex_);
        transfer->is_over = true;
        changed_.notify_all();
      });
    } else {
      strand_.post([done] { done(resource_exhausted("too many transfers at once")); });
    }
  }
  for (const auto& one : over) one->thread.join();
}

Result<std::shared_ptr<DataLine>> Parameters::open(Transfer& transfer) {
  SQUARE_ASSIGN_OR_RETURN(auto line, lines_.open(transfer.what));
  const std::lock_guard lock(mutex_);
  if (transfer.is_cancelled) return cancelled("the transfer is not wanted any more");
  transfer.line = line;
  return line;
}

Status Parameters::run(Transfer& transfer) {
  SQUARE_ASSIGN_OR_RETURN(const auto line, open(transfer));
  if (!transfer.is_push) wait_for_others(transfer);
  const Status status = transfer.is_push ? send(transfer.what, *line) : receive(transfer.what, *line);
  // What is left on it belongs to no other transfer.
  if (!status.is_ok()) line->end();
  const std::lock_guard lock(mutex_);
  transfer.line = nullptr;  // a cancel that comes now must not end what the next transfer on it needs
  return status;
}

void Parameters::wait_for_others(const Transfer& transfer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::ranges::none_of(transfers_, [&](const std::shared_ptr<Transfer>& other) {
      return other.get() != &transfer && !other->is_push && !other->is_over && other->is_cancelled &&
             do_overlap(other->what.shard(), transfer.what.shard());
    });
  });
}

void Parameters::write_payload(std::span<std::byte> payload, std::uint64_t first, std::size_t count,
                               bool is_seed) const {
  if (is_seed || are_parameters_) {
    std::memcpy(payload.data(), set_aside_.data() + first, count * sizeof(float));
    return;
  }
  // In blocks that stay in the cache.
  constexpr std::size_t kBlock = 4096;
  float delta[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const float* const base = base_.data() + first + begin;
    const float* const now = set_aside_.data() + first + begin;
    for (std::size_t i = 0; i < size; ++i) delta[i] = base[i] - now[i];
    const auto* const bytes = reinterpret_cast<const std::byte*>(delta);
    if (are_bfloat16_) {
      compression::kernels().to_bfloat16(payload.data() + begin * 2, bytes, size);
    } else {
      std::memcpy(payload.data() + begin * sizeof(float), bytes, size * sizeof(float));
    }
  }
}

Status Parameters::send(const v1::PsTransfer& what, DataLine& line) {
  const std::size_t elements = what.shard().end() - what.shard().begin();
  const bool is_bfloat16 = are_bfloat16_ && !what.is_seed();
  const ElementType type = is_bfloat16 ? ElementType::kBfloat16 : ElementType::kFloat32;
  std::deque<std::pair<std::vector<std::byte>, std::shared_ptr<Work>>> under_way;
  Status status;
  for (std::size_t part = 0; part < parts_of(elements) && status.is_ok(); ++part) {
    std::vector<std::byte> message;
    if (under_way.size() == kPartsUnderWay) {
      status = under_way.front().second->wait();
      message = std::move(under_way.front().first);
      under_way.pop_front();
      if (!status.is_ok()) break;
    }
    const std::size_t count = part_size(elements, part);
    const std::uint64_t first = what.shard().begin() + part * kPartElements;
    message.resize(part_bytes(count, type));
    write_payload(std::span(message).subspan(kPartHeadBytes), first, count, what.is_seed());
    seal(message, {what.version(), what.ticket(), first});
    auto sent = line.send(message);
    status = sent.is_ok() ? Status() : sent.status();
    if (sent.is_ok()) under_way.emplace_back(std::move(message), *sent);
  }
  if (!status.is_ok()) line.end();
  for (auto& [message, work] : under_way) {
    const Status ended = work->wait();
    if (status.is_ok()) status = ended;
  }
  return status;
}

Status Parameters::receive(const v1::PsTransfer& what, DataLine& line) {
  const std::size_t elements = what.shard().end() - what.shard().begin();
  std::deque<std::pair<std::vector<std::byte>, std::shared_ptr<Work>>> under_way;
  Status status;
  std::size_t posted = 0;
  for (std::size_t part = 0; part < parts_of(elements) && status.is_ok(); ++part) {
    while (posted < parts_of(elements) && under_way.size() < kPartsUnderWay && status.is_ok()) {
      std::vector<std::byte> message(part_bytes(part_size(elements, posted), ElementType::kFloat32));
      auto work = line.receive(message);
      status = work.is_ok() ? Status() : work.status();
      if (work.is_ok()) under_way.emplace_back(std::move(message), *work);
      ++posted;
    }
    if (!status.is_ok()) break;
    status = under_way.front().second->wait();
    const std::vector<std::byte> message = std::move(under_way.front().first);
    under_way.pop_front();
    const std::uint64_t first = what.shard().begin() + part * kPartElements;
    if (status.is_ok()) status = check_part(message, {what.version(), what.maker(), first});
    if (!status.is_ok()) break;
    std::memcpy(staged_.data() + first, message.data() + kPartHeadBytes, message.size() - kPartHeadBytes);
  }
  if (!status.is_ok()) line.end();
  for (auto& [message, work] : under_way) static_cast<void>(work->wait());
  return status;
}

void Parameters::cancel(Transfer& transfer) {
  transfer.is_cancelled = true;
  if (transfer.line) transfer.line->end();
}

void Parameters::cancel(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  for (const auto& transfer : transfers_) {
    if (transfer->what.ticket() == ticket && !transfer->is_push) cancel(*transfer);
  }
}

void Parameters::end_pushes() {
  std::unique_lock lock(mutex_);
  const auto are_over = [this] {
    return std::ranges::none_of(transfers_, [](const auto& one) { return one->is_push && !one->is_over; });
  };
  // What the servers have is over in a moment, and its line is good: to end it would break the next push.
  if (changed_.wait_for(lock, kPushPatience, are_over)) return;
  for (const auto& transfer : transfers_) {
    if (transfer->is_push && !transfer->is_over) cancel(*transfer);
  }
  changed_.wait(lock, are_over);
}

void Parameters::rebase(ConstTensors tensors) {
  end_pushes();
  float* to = base_.data();
  for (const std::span<const float> tensor : tensors) to = std::ranges::copy(tensor, to).out;
}

void Parameters::set_aside(ConstTensors tensors) {
  end_pushes();
  float* to = set_aside_.data();
  for (const std::span<const float> tensor : tensors) to = std::ranges::copy(tensor, to).out;
}

bool Parameters::adopt(Tensors tensors, bool drops_work) {
  end_pushes();
  bool is_finite = !drops_work;
  std::size_t first = 0;
  for (const std::span<float> tensor : tensors) {
    float sum = 0;  // of zeros, unless one is not finite
    for (std::size_t i = 0; i < tensor.size() && !drops_work; ++i) {
      tensor[i] = staged_[first + i] + (tensor[i] - set_aside_[first + i]);
      sum += tensor[i] * 0.0F;
    }
    is_finite = is_finite && sum == 0;
    first += tensor.size();
  }
  if (!is_finite) {
    const float* from = staged_.data();
    for (const std::span<float> tensor : tensors) {
      std::copy_n(from, tensor.size(), tensor.data());
      from += tensor.size();
    }
  }
  base_.swap(staged_);
  return !drops_work && !is_finite;
}

void Parameters::stop() {
  std::list<std::shared_ptr<Transfer>> all;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (const auto& transfer : transfers_) cancel(*transfer);
    all.swap(transfers_);
    changed_.notify_all();
  }
  lines_.stop();
  for (const auto& transfer : all) transfer->thread.join();
}

}  // namespace square::ps

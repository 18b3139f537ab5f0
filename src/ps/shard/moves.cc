#include "ps/shard/moves.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ps/protocol.h"
#include "ps/shard/snapshot_file.h"

namespace square::ps {
namespace {

struct WireState {
  std::uint64_t rounds = 0;
  std::uint64_t has_accumulator = 0;
};
constexpr std::size_t kHeadMessage = kPartHeadBytes + sizeof(WireState);
// In place of an element's number, which is less.
constexpr std::uint64_t kHeadMark = ~std::uint64_t{0};

// One message of an array.
struct Piece {
  StateArray array;
  std::uint64_t first;  // element of the model
  std::size_t count;
};

// All messages of a range after its head, in their order.
class Pieces {
 public:
  Pieces(const v1::PsShard& range, bool has_accumulator)
      : first_(range.begin()),
        elements_(range.end() - range.begin()),
        parts_(parts_of(elements_)),
        arrays_(has_accumulator ? 3 : 2) {}

  [[nodiscard]] std::size_t count() const { return parts_ * arrays_; }
  [[nodiscard]] Piece at(std::size_t index) const {
    const std::size_t part = index % parts_;
    return {static_cast<StateArray>(index / parts_), first_ + part * kPartElements,
            part_size(elements_, part)};
  }
  // Of the longest message.
  [[nodiscard]] std::size_t bytes() const {
    return part_bytes(std::min(elements_, kPartElements), ElementType::kFloat32);
  }

 private:
  std::uint64_t first_;
  std::size_t elements_;
  std::size_t parts_;
  std::size_t arrays_;
};

// Arrays are told apart as if each had elements of its own.
PartHead head_of(const v1::PsTransfer& transfer, const Piece& piece) {
  return {transfer.version(), transfer.maker(),
          piece.first + static_cast<std::uint64_t>(piece.array) * kMaxElements};
}

std::size_t bytes_of(const Piece& piece) { return part_bytes(piece.count, ElementType::kFloat32); }

Status send_head(DataLine& line, Staging& staging, const v1::PsTransfer& transfer, const StateHead& head) {
  Window window(line, staging, 1, kHeadMessage);
  const std::span<std::byte> message = window.buffer(0, kHeadMessage);
  const WireState wire{head.rounds, head.has_accumulator ? 1U : 0U};
  std::memcpy(message.data() + kPartHeadBytes, &wire, sizeof wire);
  seal(message, {transfer.version(), transfer.maker(), kHeadMark});
  SQUARE_RETURN_IF_ERROR(window.send(0, kHeadMessage));
  return window.wait(0);
}

Result<StateHead> receive_head(DataLine& line, Staging& staging, const v1::PsTransfer& transfer) {
  Window window(line, staging, 1, kHeadMessage);
  SQUARE_RETURN_IF_ERROR(window.receive(0, kHeadMessage));
  SQUARE_RETURN_IF_ERROR(window.wait(0));
  const std::span<std::byte> message = window.buffer(0, kHeadMessage);
  SQUARE_RETURN_IF_ERROR(check_part(message, {transfer.version(), transfer.maker(), kHeadMark}));
  WireState wire;
  std::memcpy(&wire, message.data() + kPartHeadBytes, sizeof wire);
  return StateHead{wire.rounds, wire.has_accumulator != 0};
}

}  // namespace

Result<std::shared_ptr<Gathering>> Gathering::create(const v1::PsShard& shard, std::size_t sources) {
  std::shared_ptr<Gathering> made(new Gathering(shard, sources));
  const std::uint64_t size = shard.end() - shard.begin();
  SQUARE_ASSIGN_OR_RETURN(made->state_.parameters, floats(size));
  SQUARE_ASSIGN_OR_RETURN(made->state_.momentum, floats(size));
  return made;
}

std::vector<float>& Gathering::array(StateArray array) {
  switch (array) {
    case StateArray::kParameters: return state_.parameters;
    case StateArray::kMomentum: return state_.momentum;
    default: return state_.accumulator;
  }
}

Status Gathering::begin(const StateHead& head) {
  const std::lock_guard lock(mutex_);
  if (head_) return *head_ == head ? Status() : data_loss("servers have shards of different rounds");
  if (head.has_accumulator) {
    SQUARE_ASSIGN_OR_RETURN(state_.accumulator, floats(state_.parameters.size()));
  }
  head_ = head;
  state_.rounds = head.rounds;
  return {};
}

std::span<float> Gathering::room(StateArray array, std::uint64_t first, std::size_t count) {
  return std::span(this->array(array)).subspan(first - first_, count);
}

bool Gathering::end_source(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.is_ok()) status_ = status;
  return --sources_ == 0;
}

Status Gathering::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::optional<StateHead> Gathering::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

Status send_state(DataLine& line, Staging& staging, const v1::PsTransfer& transfer, const StateHead& head,
                  const StateReader& read) {
  SQUARE_RETURN_IF_ERROR(send_head(line, staging, transfer, head));
  const Pieces pieces(transfer.shard(), head.has_accumulator);
  Window window(line, staging, pieces.count(), pieces.bytes());
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    const Piece piece = pieces.at(i);
    SQUARE_RETURN_IF_ERROR(window.wait(i));  // for the one before in its buffer
    const std::span<std::byte> message = window.buffer(i, bytes_of(piece));
    SQUARE_RETURN_IF_ERROR(read(piece.array, piece.first, payload_of(message)));
    seal(message, head_of(transfer, piece));
    SQUARE_RETURN_IF_ERROR(window.send(i, message.size()));
  }
  for (std::size_t i = 0; i < kPartsUnderWay; ++i) SQUARE_RETURN_IF_ERROR(window.wait(pieces.count() + i));
  return {};
}

Status receive_state(DataLine& line, Staging& staging, const v1::PsTransfer& transfer, Gathering& gathering) {
  SQUARE_ASSIGN_OR_RETURN(const StateHead head, receive_head(line, staging, transfer));
  SQUARE_RETURN_IF_ERROR(gathering.begin(head));
  const Pieces pieces(transfer.shard(), head.has_accumulator);
  Window window(line, staging, pieces.count(), pieces.bytes());
  const auto begin = [&](std::size_t i) {
    return i < pieces.count() ? window.receive(i, bytes_of(pieces.at(i))) : Status();
  };
  for (std::size_t i = 0; i < kPartsUnderWay; ++i) SQUARE_RETURN_IF_ERROR(begin(i));
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    const Piece piece = pieces.at(i);
    SQUARE_RETURN_IF_ERROR(window.wait(i));
    const std::span<std::byte> message = window.buffer(i, bytes_of(piece));
    SQUARE_RETURN_IF_ERROR(check_part(message, head_of(transfer, piece)));
    std::ranges::copy(payload_of(message), gathering.room(piece.array, piece.first, piece.count).begin());
    SQUARE_RETURN_IF_ERROR(begin(i + kPartsUnderWay));
  }
  return {};
}

}  // namespace square::ps

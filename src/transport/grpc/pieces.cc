#include "transport/grpc/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "square/frame.h"

namespace square::rpc {
namespace {

// Magic, and how many bytes of the message follow this piece.
using PieceHeader = std::array<std::byte, kPieceHeaderBytes>;
constexpr std::array<std::byte, 4> kPieceMagic = {std::byte{'S'}, std::byte{'Q'}, std::byte{'L'},
                                                  std::byte{'P'}};
constexpr std::size_t kRestAt = 4;

bool is_piece(const Buffer& message) {
  if (message.size_bytes() < kPieceHeaderBytes) return false;
  std::array<std::byte, kPieceMagic.size()> begin{};
  message.range(0, begin.size()).copy_to(begin.data());
  return begin == kPieceMagic;
}

std::size_t rest_of(const Buffer& piece) {
  PieceHeader header{};
  piece.range(0, header.size()).copy_to(header.data());
  std::size_t rest = 0;
  for (std::size_t i = kRestAt; i < header.size(); ++i)
    rest |= std::to_integer<std::size_t>(header[i]) << (8 * (i - kRestAt));
  return rest;
}

PieceHeader piece_header(std::size_t rest_bytes) {
  PieceHeader header{};
  std::copy(kPieceMagic.begin(), kPieceMagic.end(), header.begin());
  for (std::size_t i = kRestAt; i < header.size(); ++i)
    header[i] = static_cast<std::byte>(rest_bytes >> (8 * (i - kRestAt)));
  return header;
}

}  // namespace

void OutgoingPieces::start(grpc::ByteBuffer message) {
  SQUARE_CHECK(is_empty(), "a message follows when the one before is out");
  std::vector<grpc::Slice> slices;
  const bool is_read = message.Dump(&slices).ok();
  SQUARE_CHECK(is_read, "a message of our own can be read");
  for (grpc::Slice& slice : slices) {
    size_bytes_ += slice.size();
    if (slice.size() > 0) slices_.push_back(std::move(slice));
  }
  is_begun_ = false;
}

grpc::ByteBuffer OutgoingPieces::take(std::size_t most_bytes) {
  const bool is_whole = size_bytes_ <= most_bytes && !is_begun_;
  const std::size_t most = is_whole ? size_bytes_ : std::min(most_bytes, kMaxFrameBytes - kPieceHeaderBytes);
  const std::size_t wanted = std::min(most, size_bytes_);
  std::vector<grpc::Slice> piece;
  if (!is_whole) {
    const PieceHeader header = piece_header(size_bytes_ - wanted);
    piece.emplace_back(header.data(), header.size());
  }
  for (std::size_t left = wanted; left > 0;) {
    grpc::Slice& first = slices_.front();
    if (first.size() <= left) {
      left -= first.size();
      piece.push_back(std::move(first));
      slices_.pop_front();
    } else {
      piece.push_back(first.sub(0, left));
      first = first.sub(left, first.size());
      left = 0;
    }
  }
  size_bytes_ -= wanted;
  is_begun_ = true;
  return {piece.data(), piece.size()};
}

void OutgoingPieces::drop() {
  slices_.clear();
  size_bytes_ = 0;
}

Result<std::optional<Buffer>> IncomingPieces::put(Buffer arrived) {
  if (!is_piece(arrived)) {
    if (missing_bytes_ > 0) return data_loss("a message comes in the middle of another one");
    return std::optional(std::move(arrived));
  }
  const std::size_t rest = rest_of(arrived);
  const std::size_t bytes = arrived.size_bytes() - kPieceHeaderBytes;
  const bool fits = begun_ == nullptr || missing_bytes_ == bytes + rest;
  if (!fits || bytes == 0) return data_loss("the pieces of a message do not fit together");
  if (rest > kMaxFrameBytes || begun_bytes_ + bytes + rest > kMaxFrameBytes) {
    return data_loss(fmt::format("the pieces of a message are more than {} bytes", kMaxFrameBytes));
  }
  if (begun_ == nullptr) begun_ = std::make_shared_for_overwrite<std::byte[]>(bytes + rest);
  arrived.suffix(kPieceHeaderBytes).copy_to(begun_.get() + begun_bytes_);
  begun_bytes_ += bytes;
  missing_bytes_ = rest;
  if (rest > 0) return std::optional<Buffer>();
  const std::byte* const data = begun_.get();
  const std::size_t size = std::exchange(begun_bytes_, 0);
  return std::optional(Buffer(std::exchange(begun_, nullptr), data, size));
}

}  // namespace square::rpc

#include "gateway/copier.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "square/buffer.h"

namespace square::gateway {
namespace {

int copy_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxCopyThreads);
}

// The last piece tells the loop.
struct LargeCopy {
  std::shared_ptr<EventLoop> loop;
  std::function<void()> then;
  std::shared_ptr<const void> owner;
  std::atomic<std::size_t> left;
};

}  // namespace

Copier::Copier(std::shared_ptr<EventLoop> loop)
    : loop_(std::move(loop)), threads_("square-copy", copy_threads()) {}

void Copier::run(std::size_t size_bytes, std::function<void()> work, std::function<void()> then) {
  if (size_bytes <= kCopiedAtOnceBytes) {
    work();
    return loop_->post(std::move(then));
  }
  threads_.work([loop = loop_, work = std::move(work), then = std::move(then)]() mutable {
    work();
    loop->post(std::move(then));
  });
}

void Copier::copy(std::span<const std::byte> from, std::byte* to, std::shared_ptr<const void> owner,
                  std::function<void()> then) {
  if (from.size() <= kCopiedAtOnceBytes) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return loop_->post(std::move(then));
  }
  const std::size_t pieces = (from.size() + kCopyPieceBytes - 1) / kCopyPieceBytes;
  const auto whole =
      std::shared_ptr<LargeCopy>(new LargeCopy{loop_, std::move(then), std::move(owner), {pieces}});
  for (std::size_t at = 0; at < from.size(); at += kCopyPieceBytes) {
    const auto piece = from.subspan(at, std::min(kCopyPieceBytes, from.size() - at));
    threads_.work([whole, piece, to = to + at] {
      Buffer({}, piece.data(), piece.size()).copy_to(to);
      if (whole->left.fetch_sub(1) == 1) whole->loop->post(std::move(whole->then));
    });
  }
}

}  // namespace square::gateway

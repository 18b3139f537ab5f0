#include "base/net/receive_bound.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace square::net {
namespace {

// An IPv6 header with extensions, and the longest of TCP.
constexpr std::size_t kMaxHeaders = 512;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kSequenceOffset = 4;  // in TCP's header

// Where TCP's header begins in the SYN; none where that takes more than a look.
std::optional<std::size_t> tcp_header(std::span<const std::uint8_t> syn) {
  if (syn.empty()) return std::nullopt;
  constexpr std::size_t kIpv6NextHeader = 6;
  const int version = syn[0] >> 4U;
  if (version == 4) return std::size_t{4} * (syn[0] & 0x0fU);
  const bool is_plain = version == 6 && syn.size() > kIpv6Header && syn[kIpv6NextHeader] == IPPROTO_TCP;
  return is_plain ? std::optional(kIpv6Header) : std::nullopt;
}

}  // namespace

ReceiveBound::ReceiveBound(int socket) {
  std::array<std::uint8_t, kMaxHeaders> syn{};
  socklen_t size = syn.size();
  if (getsockopt(socket, IPPROTO_TCP, TCP_SAVED_SYN, syn.data(), &size) != 0) return;
  const auto header = tcp_header(std::span(syn).first(size));
  if (!header || *header + kSequenceOffset + sizeof(std::uint32_t) > size) return;
  std::uint32_t sequence = 0;
  std::memcpy(&sequence, syn.data() + *header + kSequenceOffset, sizeof(sequence));
  first_ = ntohl(sequence) + 1;  // the SYN has one of its own
}

void ReceiveBound::keep_first_segments(int listening) {
  const int yes = 1;
  setsockopt(listening, IPPROTO_TCP, TCP_SAVE_SYN, &yes, sizeof(yes));
}

void ReceiveBound::let_come(int socket, std::uint64_t received, std::uint32_t ahead) {
  if (!first_ || bound_ >= received + ahead / 2) return;
  bound_ = received + ahead;
  // Sequence numbers wrap: half of them are before the next one, half are after it.
  constexpr std::uint32_t kHalf = std::uint32_t{1} << 31U;
  constexpr std::uint32_t kWhole = ~std::uint32_t{0};
  const std::uint32_t next = *first_ + static_cast<std::uint32_t>(received);
  // The filter is given TCP's header and what follows. What brings no data passes: acknowledgements, and
  // above all a reset, as a connection that never hears of its end keeps its caller's port.
  constexpr std::uint32_t kHeaderLengthOffset = 12;
  std::array<sock_filter, 11> program{
      {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kHeaderLengthOffset), BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
       BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x3c), BPF_STMT(BPF_MISC | BPF_TAX, 0),
       BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 3, 0),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSequenceOffset), BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, next - kHalf),
       BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kHalf + ahead, 1, 0), BPF_STMT(BPF_RET | BPF_K, kWhole),
       BPF_STMT(BPF_RET | BPF_K, 0)}};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

void ReceiveBound::lift(int socket) {
  if (!first_) return;
  const int unused = 0;
  setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
  first_.reset();
}

}  // namespace square::net

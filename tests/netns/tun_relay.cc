// A link with delay and loss between two network namespaces, for kernels without netem.
//
//   tun_relay LEFT RIGHT DELAY_US LOSS SEED [LEFT_DEVICE RIGHT_DEVICE]
//
// LEFT and RIGHT are files such as /proc/PID/ns/net. Makes a TUN device in each, named "delay" if nothing
// else is said, MTU 9000 and up, says "ready", and moves packets between the two: each leaves DELAY_US after
// it came, but for a part LOSS of them (0 to 1), drawn from SEED. Addresses and routes are the caller's. Ends
// when its standard input does, and says then what it did.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMtuBytes = 9000;
// struct virtio_net_hdr, whose own header is not C++: how to split and to sum what follows.
constexpr std::size_t kOffloadHeaderBytes = 10;
// TCP's segments before they are split into packets.
constexpr std::size_t kLargestBytes = 65'536 + kOffloadHeaderBytes;
// On the way in one direction: 50 ms at 40 Gbit/s. Beyond, packets wait in the device and are
// dropped there.
constexpr std::size_t kMaxBytesOnTheWay = std::size_t{256} << 20U;
constexpr int kDeviceQueuePackets = 10'000;
constexpr std::size_t kReadsInARow = 64;
constexpr auto kLate = std::chrono::microseconds(100);

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "tun_relay: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

void configure(int socket_fd, ifreq& request, unsigned long what, const char* name) {
  if (ioctl(socket_fd, what, &request) != 0) fail(name);
}

// A TUN device in the namespace of that file; the calling thread stays in the namespace. With
// `whole`, TCP's segments come before they are split into packets, which costs the machine less.
int open_device(const char* network, const char* name, bool whole) {
  const int network_fd = open(network, O_RDONLY | O_CLOEXEC);
  if (network_fd < 0 || setns(network_fd, CLONE_NEWNET) != 0) fail(network);
  close(network_fd);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  configure(device, request, TUNSETIFF, "TUNSETIFF");
  int header_bytes = kOffloadHeaderBytes;
  if (ioctl(device, TUNSETVNETHDRSZ, &header_bytes) != 0) fail("TUNSETVNETHDRSZ");
  if (whole && ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("TUNSETOFFLOAD");
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) fail("socket");
  request.ifr_mtu = kMtuBytes;
  configure(socket_fd, request, SIOCSIFMTU, "SIOCSIFMTU");
  request.ifr_qlen = kDeviceQueuePackets;
  configure(socket_fd, request, SIOCSIFTXQLEN, "SIOCSIFTXQLEN");
  request.ifr_flags = IFF_UP;
  configure(socket_fd, request, SIOCSIFFLAGS, "SIOCSIFFLAGS");
  close(socket_fd);
  return device;
}

// One direction, on a thread of its own.
class Direction {
 public:
  Direction(int from, int to, int stop, Clock::duration delay, double loss, std::uint64_t seed)
      : buffer_bytes_(loss == 0 ? kLargestBytes : kMtuBytes + kOffloadHeaderBytes),
        from_(from),
        to_(to),
        stop_(stop),
        delay_(delay),
        random_(seed),
        is_lost_(loss) {}

  void run() {
    prctl(PR_SET_TIMERSLACK, 1);
    while (wait()) {
      forward();
      for (std::size_t i = 0; i < kReadsInARow && take(); ++i) forward();
    }
  }

  [[nodiscard]] std::string report() const {
    return fmt::format(R"({{"forwarded": {}, "lost": {}, "late": {}, "latest_us": {}}})", forwarded_, lost_,
                       late_, std::chrono::duration_cast<std::chrono::microseconds>(latest_).count());
  }

 private:
  using Buffer = std::unique_ptr<char[]>;
  struct Packet {
    Clock::time_point due;
    std::size_t size_bytes;
    Buffer bytes;
  };

  // Until a packet comes or is due. False: it is over.
  bool wait() {
    std::array<pollfd, 2> files{pollfd{stop_, POLLIN, 0}, pollfd{from_, POLLIN, 0}};
    if (waiting_.size() * buffer_bytes_ >= kMaxBytesOnTheWay) files[1].events = 0;
    timespec left{};
    if (!waiting_.empty()) {
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::max(Clock::duration(0), waiting_.front().due - Clock::now()));
      left = {ns.count() / 1'000'000'000, ns.count() % 1'000'000'000};
    }
    if (ppoll(files.data(), files.size(), waiting_.empty() ? nullptr : &left, nullptr) < 0 &&
        errno != EINTR) {
      fail("ppoll");
    }
    return files[0].revents == 0;
  }

  bool take() {
    if (waiting_.size() * buffer_bytes_ >= kMaxBytesOnTheWay) return false;
    if (!spare_) spare_ = pool_.empty() ? std::make_unique<char[]>(buffer_bytes_) : from_pool();
    const ssize_t count = read(from_, spare_.get(), buffer_bytes_);
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) fail("read");
      return false;
    }
    if (is_lost_(random_)) {
      ++lost_;
      return true;
    }
    waiting_.push_back({Clock::now() + delay_, static_cast<std::size_t>(count), std::move(spare_)});
    return true;
  }

  Buffer from_pool() {
    auto bytes = std::move(pool_.back());
    pool_.pop_back();
    return bytes;
  }

  void forward() {
    while (!waiting_.empty()) {
      const auto now = Clock::now();
      Packet& packet = waiting_.front();
      if (packet.due > now) return;
      latest_ = std::max(latest_, now - packet.due);
      if (now - packet.due > kLate) ++late_;
      // A device takes a packet or drops it, as a wire would.
      if (write(to_, packet.bytes.get(), packet.size_bytes) >= 0) ++forwarded_;
      pool_.push_back(std::move(packet.bytes));
      waiting_.pop_front();
    }
  }

  std::size_t buffer_bytes_;
  int from_;
  int to_;
  int stop_;
  Clock::duration delay_;
  std::mt19937_64 random_;
  std::bernoulli_distribution is_lost_;
  std::deque<Packet> waiting_;
  std::vector<Buffer> pool_;
  Buffer spare_;
  std::uint64_t forwarded_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t late_ = 0;
  Clock::duration latest_{0};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 6 && count != 8) {
    fmt::print(stderr, "usage: tun_relay LEFT RIGHT DELAY_US LOSS SEED [LEFT_DEVICE RIGHT_DEVICE]\n");
    return 2;
  }
  const char* const left_device = count == 8 ? arguments[6] : "delay";
  const char* const right_device = count == 8 ? arguments[7] : "delay";
  const std::chrono::microseconds delay(std::strtoull(arguments[3], nullptr, 10));
  const double loss = std::strtod(arguments[4], nullptr);
  // What is lost is lost by the packet.
  const bool whole = loss == 0;
  const int left = open_device(arguments[1], left_device, whole);
  const int right = open_device(arguments[2], right_device, whole);
  const std::uint64_t seed = std::strtoull(arguments[5], nullptr, 10);
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) fail("eventfd");
  Direction forth(left, right, stop, delay, loss, seed);
  Direction back(right, left, stop, delay, loss, seed + 1);
  std::thread forth_thread([&] { forth.run(); });
  std::thread back_thread([&] { back.run(); });
  fmt::print("ready\n");
  std::fflush(stdout);
  std::array<char, 64> ignored{};
  while (read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) continue;
  const std::uint64_t one = 1;
  if (write(stop, &one, sizeof(one)) != sizeof(one)) fail("eventfd");
  forth_thread.join();
  back_thread.join();
  fmt::print("{{\"forth\": {}, \"back\": {}}}\n", forth.report(), back.report());
  return 0;
}

// Loaded before a program, moves its wall clock by SHIFTED_CLOCK_SECONDS: the kernel has no namespace for it.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

time_t shift_seconds() {
  static const time_t shift = [] {
    const char* const text = std::getenv("SHIFTED_CLOCK_SECONDS");
    return text == nullptr ? time_t{0} : static_cast<time_t>(std::atol(text));
  }();
  return shift;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, struct timespec* now) {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += shift_seconds();
  return result;
}

extern "C" int gettimeofday(struct timeval* now, void* /*zone*/) {
  timespec precise{};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

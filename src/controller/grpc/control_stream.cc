#include "controller/grpc/control_stream.h"

#include <pthread.h>

#include <chrono>

namespace square::controller {

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                            const ChannelBounds& bounds) {
  grpc::ChannelArguments arguments;
  const auto set = [&](const char* key, Duration time) {
    arguments.SetInt(key,
                     static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
  };
  arguments.SetMaxReceiveMessageSize(static_cast<int>(bounds.message_bytes));
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  // A connection and a back-off of its own, and no proxy of the web on the way.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, bounds.min_wait);
  // Also the wait after an attempt that failed, which is why a stream dials with a new channel each time.
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, bounds.connect_time);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, bounds.max_wait);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, bounds.keepalive_time);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, bounds.keepalive_timeout);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

CallQueue::CallQueue()
    : thread_([this] {
        pthread_setname_np(pthread_self(), "square-control");
        void* tag = nullptr;
        for (bool is_ok = false; queue_.Next(&tag, &is_ok);) {
          const std::unique_ptr<Then> then(static_cast<Then*>(tag));
          (*then)(is_ok);
        }
      }) {}

bool CallQueue::begin(const ContextPtr& call) {
  const std::lock_guard lock(mutex_);
  return !is_stopping_ && calls_.insert(call).second;
}

void CallQueue::end(const ContextPtr& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
  changed_.notify_all();
}

void CallQueue::stop() {
  std::unique_lock lock(mutex_);
  if (std::exchange(is_stopping_, true)) return;
  for (const ContextPtr& call : calls_) call->TryCancel();
  changed_.wait(lock, [this] { return calls_.empty(); });
  lock.unlock();
  queue_.Shutdown();
  thread_.join();
}

}  // namespace square::controller

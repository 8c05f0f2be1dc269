#include "server/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "server/http_server_session.h"

namespace munia::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

constexpr std::size_t kRefusals = 64;  // connections beyond the limit that still get an answer
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when there are no descriptors

std::string show(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

void prepare(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}
void prepare(Local::socket&) {}

std::string peer_of(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint endpoint = socket.remote_endpoint(error);
  return error ? "gone" : show(endpoint);
}
std::string peer_of(const Local::socket&) { return "unix"; }

Error io_error(const std::string& what) { return {ErrorCode::kIo, what}; }

}  // namespace

struct HttpServer::Core {
  Core(HttpOptions options, OnRequest on_request, OnRefused on_refused)
      : io(options.io_threads), tcp_acceptor(io), local_acceptor(io), pause(io) {
    shared.options = std::move(options);
    shared.on_request = std::move(on_request);
    shared.on_refused = std::move(on_refused);
  }

  SessionShared shared;  // outlives the sessions, which `io` owns
  asio::io_context io;
  tcp::acceptor tcp_acceptor;
  Local::acceptor local_acceptor;
  asio::steady_timer pause;
  bool owns_unix_path = false;
  std::vector<std::thread> threads;

  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    using Accepted = typename Acceptor::protocol_type::socket;
    acceptor.async_accept(asio::make_strand(io),
                          [this, &acceptor](error_code error, Accepted socket) {
                            if (error == asio::error::operation_aborted) return;
                            if (error) {
                              pause.expires_after(kAcceptPause);
                              pause.async_wait([this, &acceptor](error_code stopped) {
                                if (!stopped) accept(acceptor);
                              });
                              return;
                            }
                            // First: should begin() find no memory, the next one is still accepted.
                            accept(acceptor);
                            begin(std::move(socket));
                          });
  }

  template <class AcceptedSocket>
  void begin(AcceptedSocket socket) {
    const std::size_t n = shared.n_connections;
    const std::size_t limit = shared.options.max_connections;
    if (n >= limit + kRefusals) return;  // closes
    std::string peer = peer_of(socket);
    prepare(socket);
    const auto session =
        std::make_shared<Session>(Session::Socket(std::move(socket)), std::move(peer), shared);
    if (n < limit) {
      session->start();
    } else {
      session->refuse(ApiError{503,
                               "there are " + std::to_string(limit) +
                                   " connections, as many as the server takes (--max-connections)",
                               "",
                               "too_many_connections",
                               {{"retry-after", "1"}}});
    }
  }

  void run() {
    while (true) {
      try {
        io.run();
        return;
      } catch (const std::exception&) {
        // Out of memory in one connection's step: that connection is lost, the others go on.
      }
    }
  }

  Result<std::string> listen_tcp() {
    const HttpOptions& options = shared.options;
    const std::string where = options.host + ":" + std::to_string(options.port);
    error_code error;
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty()) {
      return io_error("cannot listen on " + where + ": there is no such host (--host)");
    }
    const tcp::endpoint endpoint = found.begin()->endpoint();
    tcp_acceptor.open(endpoint.protocol(), error);
    if (!error) tcp_acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) tcp_acceptor.bind(endpoint, error);
    if (!error) tcp_acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
      return io_error("cannot listen on " + where +
                      ": another program uses this port; stop it, or take another with --port");
    }
    if (error) return io_error("cannot listen on " + where + ": " + error.message());
    accept(tcp_acceptor);
    return "http://" + show(tcp_acceptor.local_endpoint(error));
  }

  Result<std::string> listen_unix() {
    const std::string& path = shared.options.unix_path;
    error_code error;
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return io_error("cannot listen on " + path + ": a socket's path has at most " +
                      std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
    }
    struct stat about {};
    if (::lstat(path.c_str(), &about) == 0) {
      if (!S_ISSOCK(about.st_mode)) {
        return io_error("cannot listen on " + path + ": a file that is not a socket stands there");
      }
      Local::socket probe(io);
      probe.connect(Local::endpoint(path), error);
      if (!error) {
        return io_error("cannot listen on " + path + ": another program listens there");
      }
      ::unlink(path.c_str());  // left behind by a server that was killed
    }
    error = {};
    local_acceptor.open(Local(), error);
    if (!error) local_acceptor.bind(Local::endpoint(path), error);
    if (!error) local_acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return io_error("cannot listen on " + path + ": " + error.message());
    owns_unix_path = true;
    accept(local_acceptor);
    return "unix:" + path;
  }
};

HttpServer::HttpServer(HttpOptions options, OnRequest on_request, OnRefused on_refused)
    : core_(std::make_unique<Core>(std::move(options), std::move(on_request),
                                   std::move(on_refused))) {}

HttpServer::~HttpServer() { stop(); }

Status HttpServer::start() {
  Result<std::string> address =
      core_->shared.options.unix_path.empty() ? core_->listen_tcp() : core_->listen_unix();
  if (!address) return address.error();
  address_ = *std::move(address);
  for (int i = 0; i < core_->shared.options.io_threads; ++i) {
    core_->threads.emplace_back([this] { core_->run(); });
  }
  return {};
}

void HttpServer::drain() { core_->shared.draining = true; }

bool HttpServer::wait_answered(double seconds) const {
  constexpr auto kPause = std::chrono::milliseconds(10);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (core_->shared.n_open_answers > 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

void HttpServer::stop() {
  core_->io.stop();
  for (std::thread& thread : core_->threads) thread.join();
  core_->threads.clear();
  if (std::exchange(core_->owns_unix_path, false)) {
    ::unlink(core_->shared.options.unix_path.c_str());
  }
}

}  // namespace munia::server

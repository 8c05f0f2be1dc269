// The network side with plain sockets as clients and a handler of the test's own.
#include "server/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace munia::server {
namespace {

class Client {
 public:
  explicit Client(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Client() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(const std::string& data) {
    EXPECT_EQ(::send(fd_, data.data(), data.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(data.size()));
  }
  /// Everything until the server closes.
  std::string read_all() {
    std::string out;
    char part[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, part, sizeof part, 0)) > 0;) {
      out.append(part, static_cast<std::size_t>(n));
    }
    return out;
  }

 private:
  int fd_;
};

constexpr const char* kGet = "GET /x?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
constexpr auto kPatience = std::chrono::seconds(60);

HttpOptions any_port() {
  HttpOptions options;
  options.port = 0;
  return options;
}

TEST(HttpServer, AnswersAndStreams) {
  std::promise<std::thread> worker;
  HttpServer server(
      any_port(),
      [&worker](Request request, std::shared_ptr<Responder> responder) {
        worker.set_value(
            std::thread([request = std::move(request), responder = std::move(responder)] {
              responder->start_stream(200, {{"x-method", request.method + " bad\r\nvalue"}});
              EXPECT_TRUE(responder->write("abc"));
              EXPECT_TRUE(responder->write(std::string(17, 'd')));
              responder->end();
              EXPECT_FALSE(responder->write("late"));
              responder->send(500, {}, "late");
            }));
      },
      [](int) {});
  ASSERT_TRUE(server.start().ok());
  Client client(server.address());
  client.send(kGet);
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nx-method: GET bad  value\r\n")) << answer;
  std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_TRUE(body == "3\r\nabc\r\n11\r\nddddddddddddddddd\r\n0\r\n\r\n") << body;
  worker.get_future().get().join();  // its Responder must go before the server
  EXPECT_TRUE(server.wait_answered(60));
}

TEST(HttpServer, Http10HasNoChunks) {
  HttpServer server(
      any_port(),
      [](Request, const std::shared_ptr<Responder>& responder) {
        responder->start_stream(200, {});
        responder->write("abc");
        responder->end();
      },
      [](int) {});
  ASSERT_TRUE(server.start().ok());
  Client client(server.address());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.0 200 OK\r\n"));
  EXPECT_TRUE(answer.ends_with("connection: close\r\n\r\nabc")) << answer;
}

// A client that never reads: the writer is told within a bounded number of bytes, and never waits.
TEST(HttpServer, SlowReaderIsCutOff) {
  std::promise<std::size_t> written;
  std::promise<void> gone;
  std::promise<std::thread> worker;
  HttpServer server(
      any_port(),
      [&](Request, std::shared_ptr<Responder> responder) {
        worker.set_value(std::thread([&, responder = std::move(responder)] {
          responder->on_client_gone([&gone] { gone.set_value(); });
          responder->start_stream(200, {});
          const std::string piece(1024, 'x');
          std::size_t n = 0;
          while (responder->write(piece)) n += piece.size();
          written.set_value(n);
        }));
      },
      [](int) {});
  ASSERT_TRUE(server.start().ok());
  Client client(server.address());
  client.send(kGet);
  auto future = written.get_future();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  worker.get_future().get().join();
  EXPECT_LT(future.get(), std::size_t{64} << 20);  // the kernel's buffers, and 256 KiB
  EXPECT_EQ(gone.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(server.wait_answered(60));
}

TEST(HttpServer, TellsWhenTheClientLeaves) {
  std::promise<void> arrived;
  std::promise<void> gone;
  std::shared_ptr<Responder> held;
  HttpServer server(
      any_port(),
      [&](Request, std::shared_ptr<Responder> responder) {
        held = std::move(responder);
        held->on_client_gone([&gone] { gone.set_value(); });
        arrived.set_value();
      },
      [](int) {});
  ASSERT_TRUE(server.start().ok());
  Client client(server.address());
  client.send(kGet);
  arrived.get_future().wait();
  client.close();
  ASSERT_EQ(gone.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(held->write("x"));
  bool told = false;
  held->on_client_gone([&told] { told = true; });
  EXPECT_TRUE(told);  // it has happened already
  held.reset();
}

TEST(HttpServer, DroppedRequestClosesTheConnection) {
  HttpServer server(
      any_port(), [](Request, const std::shared_ptr<Responder>&) {}, [](int) {});
  ASSERT_TRUE(server.start().ok());
  Client client(server.address());
  client.send(kGet);
  EXPECT_EQ(client.read_all(), "");
}

TEST(HttpServer, LimitsAreTold) {
  HttpOptions options = any_port();
  options.max_body_bytes = 8;
  options.max_header_bytes = 256;
  std::atomic<int> refused{0};
  HttpServer server(
      options,
      [](const Request& request, const std::shared_ptr<Responder>& responder) {
        responder->send(200, {}, request.body);
      },
      [&](int status) { refused = status; });
  ASSERT_TRUE(server.start().ok());
  const auto ask = [&](const std::string& data) {
    Client client(server.address());
    client.send(data);
    return client.read_all();
  };
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ";
  EXPECT_TRUE(ask(head + "8\r\n\r\n12345678").ends_with("\r\n\r\n12345678"));
  EXPECT_TRUE(ask(head + "9\r\n\r\n123456789").starts_with("HTTP/1.1 413 "));
  EXPECT_EQ(refused, 413);
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nA: " + std::string(300, 'a') + "\r\n\r\n")
                  .starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  const std::string expecting =
      ask("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n"
          "Content-Length: 2\r\n\r\nok");
  EXPECT_TRUE(expecting.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, TellsThatThePortIsTaken) {
  const auto nothing = [](Request, const std::shared_ptr<Responder>&) {};
  HttpServer first(any_port(), nothing, [](int) {});
  ASSERT_TRUE(first.start().ok());
  HttpOptions same = any_port();
  same.port =
      static_cast<std::uint16_t>(std::stoi(first.address().substr(first.address().rfind(':') + 1)));
  HttpServer second(same, nothing, [](int) {});
  const Status status = second.start();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("another program uses this port"), std::string::npos);
  HttpOptions nowhere = any_port();
  nowhere.host = "no such host";
  HttpServer third(nowhere, nothing, [](int) {});
  EXPECT_FALSE(third.start().ok());
}

}  // namespace
}  // namespace munia::server

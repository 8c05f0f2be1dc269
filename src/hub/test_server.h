// A small HTTP server for this room's tests: one thread, one request at a time, replies scripted by
// a function, so that a test can break off, lie about lengths or ignore ranges. Tests only.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace munia::hub {

struct TestRequest {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case

  /// The N of "Range: bytes=N-", or 0.
  std::size_t range_begin() const {
    const auto it = headers.find("range");
    return it == headers.end() ? 0 : std::stoul(it->second.substr(it->second.find('=') + 1));
  }
};

/// A reply as its raw bytes; the connection closes after it.
inline std::string reply(int code, const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 " + std::to_string(code) +
         " X\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

/// As reply(), but honours Range as a real server does.
inline std::string ranged_reply(const TestRequest& request, const std::string& body,
                                const std::string& headers = "") {
  const std::size_t begin = request.range_begin();
  if (begin == 0) return reply(200, body, headers);
  if (begin >= body.size()) {
    return reply(416, "",
                 "Content-Range: bytes */" + std::to_string(body.size()) + "\r\n" + headers);
  }
  return reply(206, body.substr(begin),
               "Content-Range: bytes " + std::to_string(begin) + "-" +
                   std::to_string(body.size() - 1) + "/" + std::to_string(body.size()) + "\r\n" +
                   headers);
}

class TestServer {
 public:
  using Handler = std::function<std::string(const TestRequest&)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~TestServer() {
    shutdown(listener_, SHUT_RDWR);
    close(listener_);
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<TestRequest> requests() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (;;) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      const std::string bytes = handler_(read_request(fd));
      std::size_t n_sent = 0;
      while (n_sent < bytes.size()) {
        const ssize_t n = send(fd, bytes.data() + n_sent, bytes.size() - n_sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        n_sent += static_cast<std::size_t>(n);
      }
      close(fd);
    }
  }

  TestRequest read_request(int fd) {
    std::string head;
    char c = 0;
    while (!head.ends_with("\r\n\r\n") && recv(fd, &c, 1, 0) == 1) head.push_back(c);
    TestRequest request;
    const std::size_t begin = head.find(' ') + 1;
    request.path = head.substr(begin, head.find(' ', begin) - begin);
    for (std::size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
      const std::size_t end = head.find("\r\n", at);
      const std::size_t colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
      request.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    requests_.push_back(request);
    return request;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<TestRequest> requests_;
  std::thread thread_;
};

/// An address where nothing listens: a port that was free a moment ago.
inline std::string dead_url() {
  TestServer gone([](const TestRequest&) { return std::string(); });
  return gone.url();
}

/// A directory of its own for each test, removed afterwards.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "munia-hub-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace munia::hub

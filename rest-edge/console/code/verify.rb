# No library is needed.
require "base64"
require "openssl"

# What follows the first underscore is the key.
KEY = Base64.decode64(ENV.fetch("WEBHOOK_SECRET").split("_", 2).last)

# The headers have names in lower case.
def genuine?(body, headers)
  id, time = headers.fetch("webhook-id"), headers.fetch("webhook-timestamp")
  return false if (Time.now.to_i - time.to_i).abs > 300
  expected = "v1,#{Base64.strict_encode64(OpenSSL::HMAC.digest("SHA256", KEY, "#{id}.#{time}.#{body}"))}"
  # There is one signature for each valid secret.
  headers.fetch("webhook-signature").split(" ").any? { |one| OpenSSL.secure_compare(one, expected) }
end

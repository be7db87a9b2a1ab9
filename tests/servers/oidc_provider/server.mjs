// An OpenID provider that knows everybody: whoever logs in as NAME has the address NAME. Its keys are new at each start.
//     node server.mjs '{"port": 4000, "kid": "first", "clients": [...]}'    in the folder with node_modules
import { generateKeyPairSync } from "node:crypto";
import { pathToFileURL } from "node:url";

const installed = pathToFileURL(`${process.cwd()}/node_modules/oidc-provider/lib/index.js`);
const { default: Provider } = await import(installed.href);
const { port, kid, clients } = JSON.parse(process.argv[2]);
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false, // the ID token has the address
  cookies: { keys: ["of the tests"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: id, email_verified: true }),
  }),
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" }] },
  pkce: { required: () => true },
});
provider.listen(port, "127.0.0.1");

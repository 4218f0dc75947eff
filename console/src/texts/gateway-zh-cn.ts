/**
 * Gateway messages in 简体中文, by their English text, because the API is in English. `{}` stands for a value;
 * values keep their order.
 */
export const gatewayZhCN: Readonly<Record<string, string>> = {
  // Configuration history.
  'Start of the history': '历史记录的起点',
  // Canaries.
  'Promote canary {}: {}': '推广灰度 {}：{}',
  'Promote canary {}': '推广灰度 {}',
  'The channel was deleted.': '渠道已删除。',
  'The alias was deleted.': '别名已删除。',
  'must change something': '必须有变更',
  'must not be changed by a canary': '不能由灰度更改',
  'must not be changed by a canary; it may change {}': '不能由灰度更改；可更改的字段：{}',
  'contains {}, which is not a token': '包含 {}，它不是令牌',
  'must have at most one decimal': '最多一位小数',
  'must be after from': '必须晚于开始时间',
  'Canary {} already tries a change of this {}. Promote or drop it first.':
    '灰度 {} 已在试用此 {} 的变更。请先推广或放弃它。',
  // Alerts.
  'API token': 'API 令牌',
  'System access token': '系统访问令牌',
  'The target is disabled.': '目标已禁用。',
  'The address could not be reached: {}': '无法连接该地址：{}',
  'The setting smtp_url is empty. Set it to your mail server.': '设置 smtp_url 为空，请填写邮件服务器。',
  'The setting smtp_from is empty. Set it to the sender of the mails.': '设置 smtp_from 为空，请填写发件人。',
  'must be sent again, because the url changes': '需要重新填写，因为地址已更改',
  'must be a time zone such as Europe/Berlin or UTC': '必须是时区，例如 Europe/Berlin 或 UTC',
  'must be a time of day such as 22:00': '必须是时间，例如 22:00',
  'must be an e-mail address': '必须是邮箱地址',
  'must be an address such as Sluice <alerts@example.com>': '必须是地址，例如 Sluice <alerts@example.com>',
  'must have the form smtps://user:password@host:465 or smtp://host:587':
    '格式必须为 smtps://user:password@host:465 或 smtp://host:587',
  'does not apply to rules of the kind {}': '不适用于类别为 {} 的规则',
  'does not apply to targets of the type {}': '不适用于类型为 {} 的目标',
  'is required: quiet hours have a start and an end': '必填：静默时段需要开始和结束时间',
  // Imported tokens.
  'The value of this token is not known, because only its hash was imported. It stays valid; create a new token to see a value.':
    '此令牌的值未知，因为只导入了它的哈希。令牌仍然有效；如需查看令牌值，请创建新令牌。',
  // The network of a channel.
  'must begin with http://, https://, socks5:// or socks5h://':
    '必须以 http://、https://、socks5:// 或 socks5h:// 开头',
  'must be a URL such as http://user:password@proxy.example:3128':
    '必须是 URL，例如 http://user:password@proxy.example:3128',
  'must not have a path, query or fragment': '不能包含路径、查询参数或片段',
  'must not contain blanks; write %20 in a password': '不能包含空白字符；密码中的空格请写成 %20',
  'must be one or more valid certificates in PEM': '必须是一个或多个有效的 PEM 证书',
  'must be a valid certificate in PEM': '必须是有效的 PEM 证书',
  'must be an unencrypted private key in PEM': '必须是未加密的 PEM 私钥',
  'must be the key of the first certificate in client_cert': '必须是客户端证书中第一个证书的私钥',
  'is required with client_cert': '设置客户端证书时必填',
  'is required with client_key': '设置客户端私钥时必填',
  // Fields of a channel.
  '32 hexadecimal digits, shown in the URL of the dashboard.': '32 位十六进制字符，见控制台网址。',
  'A date such as {}. Versions before {} report no usage in streams.':
    '日期，例如 {}；早于 {} 的版本在流式响应中不报告用量。',
  'URL of the other gateway.': '另一个网关的地址。',
  'URL of the resource: {}': '资源地址：{}',
  'URL of the server.': '服务器地址。',
  'URL of the server, usually {}': '服务器地址，通常为 {}',
  'URL of the server, with or without /v1, or of its chat endpoint. A URL that ends in # is used unchanged.':
    '服务器地址，可带或不带 /v1，也可以是其对话接口的地址。以 # 结尾的地址原样使用。',
  'Leave blank for Beijing; Singapore is {}': '留空为北京；新加坡为 {}',
  'Leave blank for China; elsewhere {}': '留空为中国；其他地区为 {}',
  'Leave blank for this machine; the provider’s cloud is {}': '留空为本机；官方云端为 {}',
  'Leave blank to use the project of the service account.': '留空：使用服务账号所属的项目。',
  'Identifies your app in the provider’s rankings.': '在供应商排行榜中标识您的应用。',
  'Newer URLs: {}, in China {}': '新地址：{}；中国为 {}',
  'Only for keys that belong to several organizations: {}': '仅用于属于多个组织的密钥：{}',
  'Only for keys that belong to several projects: {}': '仅用于属于多个项目的密钥：{}',
  'Only to attribute usage to one application: {}': '仅用于把用量记到某个应用：{}',
  'Shown next to the site URL.': '显示在站点网址旁。',
  'For example {}. Leave blank for {}.': '例如 {}；留空：{}。',
  'For example {}. A region in the key takes precedence.': '例如 {}；密钥中写明的优先。',
  'must be sent again because {}; only Root may omit it': '{}，因此需要重新填写；只有超级管理员可以省略',
  'the origin of base_url changes': '地址的来源（协议、主机、端口）已更改',
  'the type changes': '类型已更改',
  'the proxy changes': '代理已更改',
  'the trusted certificate changes': '受信任的证书已更改',
  'the Host header changes': 'Host 请求头已更改',
  'an override adds {}': '覆盖中新增了 {}',
  // Examples of keys.
  '{} letters and digits': '{} 位字母和数字',
  '{} or {} letters and digits from "Keys and Endpoint"': '“Keys and Endpoint”页中的 {} 或 {} 位字母和数字',
  '{} hexadecimal digits': '{} 位十六进制字符',
  '{} hexadecimal digits, or {}': '{} 位十六进制字符，或 {}',
  '<access key>|<secret key>': '<访问密钥>|<私有密钥>',
  '<access key>|<secret key>, or the single key of a newer account':
    '<访问密钥>|<私有密钥>，或新账号的单个密钥',
  '<access key>|<secret>|<region>, optionally |<session token>; or <API key>|<region>':
    '<访问密钥>|<私有密钥>|<区域>，第四段可为会话令牌；或 <API 密钥>|<区域>',
  '<id>.<secret>': '<ID>.<私有密钥>',
  '<id>:<secret>': '<ID>:<私有密钥>',
  'an API token with the permission "Workers AI: Read"': '具有 “Workers AI: Read” 权限的 API 令牌',
  'any text': '任意文本',
  'any text for a local server, the API key of the account for the cloud':
    '本地服务器可填任意文本，云端填账号的密钥',
  'any text, unless the server was started with a key': '任意文本，除非服务器启动时设置了密钥',
  'any text, unless the server was started with authentication': '任意文本，除非服务器启动时启用了认证',
  'eyJ… or sk-…': 'eyJ… 或 sk-…',
  'eyJ… or v1.…': 'eyJ… 或 v1.…',
  'the API key of the Ark console': '方舟控制台的 API 密钥',
  'the API key of the cloud console': '云控制台的 API 密钥',
  'the API key of the console': '控制台的 API 密钥',
  'the API key of the console ({}), not SecretId and SecretKey':
    '控制台的 API 密钥（{}），不是 SecretId 和 SecretKey',
  'the API key of the dashboard': '控制面板的 API 密钥',
  'the APIPassword of the model, or APIKey:APISecret': '该模型的 APIPassword，或 APIKey:APISecret',
  'the JSON key file of a service account, or an API key': '服务账号的 JSON 密钥文件，或 API 密钥',
  'the access key of the console': '控制台的访问密钥',
  'the bearer token that the server expects': '服务器要求的 Bearer 令牌',
  // Exposure of the gateway.
  'Put a proxy with TLS in front of the gateway and add it to SLUICE_TRUSTED_PROXIES.':
    '请在前面部署启用 TLS 的代理，并写入 SLUICE_TRUSTED_PROXIES。',
  'Its clients count as one address. If it is your proxy, add it to SLUICE_TRUSTED_PROXIES.':
    '其后的所有客户端都算作同一个地址；如果这是您的代理，请把它加入 SLUICE_TRUSTED_PROXIES。',
  // Rollback of the configuration.
  'channel "{}" is restored without keys, as channel {}, and is disabled.':
    '渠道“{}”已恢复为渠道 {}，但没有密钥，且处于禁用状态。',
  'channel "{}": its present keys are sent to another destination.':
    '渠道“{}”：其当前密钥将被发送到另一个目标地址。',
  'channel "{}" stays disabled, because it has no keys.': '渠道“{}”没有密钥，保持禁用。',
  'channel "{}": {} is not restored, because it is a secret.': '渠道“{}”：{} 是密钥，未恢复。',
  'setting "{}" is not restored, because it is a secret.': '设置“{}”是密钥，未恢复。',
  // Ledger check.
  '{}: {} records, unbroken': '{}：{} 条记录，链条完整',
  '{}: BROKEN after {} records: {}': '{}：在第 {} 条记录之后断裂：{}',
  'record {} is missing': '缺少第 {} 条记录',
  'record {} was changed': '第 {} 条记录被改动',
  "records after {} are missing, the chain's head is {}": '第 {} 条之后的记录缺失，链头为 {}',
  "the chain's head does not match its last record": '链头与最后一条记录不符',
  '{}: {} records, unbroken; the first {} are from before the upgrade and were checked without a key':
    '{}：{} 条记录，链条完整；其中前 {} 条写于升级之前，未用密钥校验',
  '{}: the whole chain is missing': '{}：整条链缺失',
  'the journal has {} settled requests, the chain has {}': '日志中有 {} 个已结算的请求，链上只有 {} 个',
  'record {} differs from the request that the journal settled at this position':
    '第 {} 条记录与日志中该位置结算的请求不符',
  'entries: {} belong to chain "{}", which does not exist': '流水：{} 条属于不存在的链“{}”',
  '{}: there are entries but no account': '{}：有流水，但没有账户',
  'rows: {} users, tokens, channels, aliases, prices and settings match the audit log':
    '数据行：{} 个用户、令牌、渠道、别名、价格和设置与审计日志一致',
  'rows: {} was removed without an audit record': '数据行：{} 被删除，但没有审计记录',
  'rows: {} was added without an audit record': '数据行：{} 被添加，但没有审计记录',
  'rows: {} differs from its last audit record': '数据行：{} 与最后一条审计记录不符',
  'held: the held amount of every account equals the sum of its leases':
    '预扣：每个账户的预扣额与节点预占额度之和一致',
  'held: {} has {} held, its leases add up to {}': '预扣：{} 预扣了 {}，节点预占额度之和为 {}',
  'held: a lease of {} on {} has no node or no account': '预扣：{} 对 {} 的预占额度不属于任何节点或账户',
  'anchors: {} heads match ({})': '锚点：{} 个链头相符（{}）',
  'anchors: the file {} does not exist': '锚点：文件 {} 不存在',
  'anchors: line {} of {} was changed, or is not from this gateway':
    '锚点：第 {} 行（{}）被改动，或并非出自本网关',
  'anchors: lines are missing before line {} of {}': '锚点：第 {} 行（{}）之前缺少若干行',
  'anchors: the journal of {} has an anchor that was changed': '锚点：节点 {} 的日志中有被改动的锚点',
  'anchors: {} lacks the line of {}, which the journal of {} has':
    '锚点：{} 缺少 {} 的一行，而节点 {} 的日志中有',
  'anchors: {}: the chain is missing; record {} was {}': '锚点：{}：链缺失；第 {} 条记录曾{}',
  'anchors: {}: record {} is not the one that was {}': '锚点：{}：第 {} 条记录不是曾{}的那一条',
  'anchors: {}: {} records are missing at its end; record {} was {}':
    '锚点：{}：末尾缺少 {} 条记录；第 {} 条记录曾{}',
  'anchored at {} ({})': '于 {} 锚定（{}）',
  'and {} more like these': '以及另外 {} 个类似问题',
  'balances: {} accounts match their entries': '余额：{} 个账户与流水一致',
  'balances: {} of {} accounts do not match their entries': '余额：{} 个账户（共 {} 个）与流水不符',
  '{}: the account has {} credited/posted, its entries add up to {}': '{}：账户为 {}，流水合计为 {}',
  'journal of {}: {} records in {} files, intact': '节点 {} 的日志：{} 条记录，{} 个文件，与写入时一致',
  'journal of {}: BROKEN: {}': '节点 {} 的日志断裂：{}',
  'journal of {}: {}': '节点 {} 的日志：{}',
  // Attention list, and reasons of disabled channels.
  'The provider rejected the key (401 or 403), and again at each trial.':
    '供应商拒绝了密钥（401/403），每次试探均如此',
  'The provider reported insufficient credit, and again at each trial.': '供应商报告余额不足，每次试探均如此',
  'The provider could not be reached repeatedly.': '多次无法连接',
  'The provider could not be reached: {}': '无法连接供应商：{}',
  'The provider could not be reached.': '无法连接供应商',
  'The provider timed out.': '供应商超时',
  'The provider failed.': '供应商出错',
  'The provider limits the rate of this key.': '供应商对此密钥限流',
  'Key {}: {}': '密钥 {}：{}',
  '{} % of its quota is used.': '已用额度 {} %',
  'Expires within a week.': '一周内到期',
  '{} requests reported more usage than is possible. The excess is an unresolved charge.':
    '{} 个请求上报的用量超出可能范围，超出部分列为待定扣费',
  'A provider may have billed for responses that were not delivered.': '供应商可能已对未送达的响应计费',
  'Failed, billed and not refunded.': '失败、已计费且未退款',
  'No other enabled channel serves it.': '没有其他已启用的渠道提供此模型',
  'It has no price, so requests are rejected.': '未定价，请求会被拒绝',
  // Reasons of unresolved charges.
  'The gateway failed after the video job was sent.': '视频任务发送后网关出错',
  'The gateway stopped during the request.': '请求进行中网关停止运行',
  'The provider did not confirm some videos of the job.': '供应商未确认任务中的部分视频',
  'The provider did not confirm the video job: {}': '供应商未确认视频任务：{}',
  // Errors of requests.
  'All channels failed (last: {}). {}': '所有渠道均失败（最后一次：{}）。{}',
  'All channels timed out (last: {}). {}': '所有渠道均超时（最后一次：{}）。{}',
  'All channels are rate limited by their providers (last: {}). {}':
    '所有渠道均被供应商限流（最后一次：{}）。{}',
  'Try again later.': '请稍后重试。',
  'The provider reported: {}': '供应商报告：{}',
  'No channel for the model "{}" is available now. Try again later.':
    '模型“{}”目前没有可用的渠道，请稍后重试',
  'The provider returned status {}.': '供应商返回状态码 {}',
  'The provider returned status {}: {}': '供应商返回状态码 {}：{}',
  'status {}': '状态码 {}',
  'status {}, mapped to {}': '状态码 {}，映射为 {}',
  'The provider reported an error.': '供应商报告了错误',
  'The provider reported an error during the response.': '供应商在响应中报告了错误',
  'The provider closed the connection before the response was complete.': '供应商在响应完成前断开了连接',
  'The provider timed out during the response.': '供应商在响应中途超时',
  'The gateway failed during the response.': '网关在响应中途出错',
  'The quota was used up during the response.': '响应中途额度用尽',
  'connection failed': '连接失败',
  timeout: '超时',
  'connection closed': '连接被断开',
  'invalid response': '响应无效',
  'unusable key': '密钥不可用',
  'The model "{}" has no price. Ask an administrator to set one.': '模型“{}”未定价，请管理员设置价格。',
  'The token or its user does not have enough quota for this request, which can cost up to {}.':
    '令牌或其用户的额度不足以支付此请求，最高可能花费 {}。',
  'The token or its user has no quota left. Without quota a body may have at most {} KiB.':
    '令牌或其用户没有剩余额度。没有额度时，请求体最多 {} KiB。',
  'Incorrect API key provided: {}': 'API 密钥不正确：{}',
  'The token is unknown or was deleted.': '令牌不存在或已被删除。',
  'The token is disabled.': '令牌已禁用。',
  'The token has expired. Create a new one or extend it.': '令牌已过期。请新建令牌或延长其有效期。',
  'The user of the token is disabled.': '令牌的用户已禁用。',
  'The token may not use the model "{}".': '令牌不能使用模型“{}”。',
  'The token may not be used from the address {}.': '令牌不能从地址 {} 使用。',
  'The token has reached its {} limit. Try again in {} s.': '令牌达到了 {} 限制，请在 {} 秒后重试。',
  'The user has reached its {} limit. Try again in {} s.': '用户达到了 {} 限制，请在 {} 秒后重试。',
  '{} of {} requests failed or were rejected in the last 24 hours, {} of them with {}.':
    '最近 24 小时内失败或被拒绝的请求：{} / {}，其中 {} 个为 {}。',
  '{} of {} requests failed or were rejected in the last 24 hours, {} of them with {} (token {}).':
    '最近 24 小时内失败或被拒绝的请求：{} / {}，其中 {} 个为 {}（令牌 {}）。',
  // Explanations of requests.
  'No enabled channel serves the model "{}".': '没有已启用的渠道提供模型“{}”。',
  'The channel does not serve the model "{}".': '该渠道不提供模型“{}”。',
  'The gateway did not accept the token of the request.': '网关未接受该请求的令牌。',
  'A browser sent the request from another site, which is not allowed with the cookie of the console.':
    '请求由浏览器从其他站点发出，不允许使用控制台的 Cookie。',
  'The token has a list of allowed addresses, and the address of the client is not in it.':
    '令牌限定了允许的地址，客户端的地址不在其中。',
  'The token may use only the models in its list.': '令牌只能使用其列表中的模型。',
  'The token or its user reached a limit on requests, tokens or concurrency.':
    '令牌或其用户达到了请求数、Token 数或并发数的限制。',
  'Before it sends a request, the gateway holds the most that the request can cost.':
    '发送请求之前，网关会预占它可能产生的最高费用。',
  'A model without a price cannot be charged, so its requests are rejected.':
    '未定价的模型无法计费，因此请求被拒绝。',
  'No enabled channel listed the model, and no alias had its name.':
    '没有已启用的渠道提供该模型，也没有同名的别名。',
  'Channels for the model exist, but none of them could take the request at that time.':
    '有渠道提供该模型，但当时都无法接受请求。',
  'The providers of all tried channels limit their rate.': '所有尝试过的渠道都被供应商限流。',
  'All tried channels failed, and no other channel was left.': '所有尝试过的渠道都失败了，没有其他渠道可用。',
  'The providers of all tried channels took too long.': '所有尝试过的渠道响应超时。',
  'The gateway has no route with this path.': '网关没有此路径。',
  'The route does not support this HTTP method.': '此路径不支持该 HTTP 方法。',
  'The client did not send the whole request, or it disconnected.':
    '客户端没有发送完整的请求，或已断开连接。',
  'The request itself is not valid, so another channel would reject it too.':
    '请求本身无效，其他渠道也会拒绝。',
  'No channel of the model accepts an image, audio, file or other content of the request.':
    '该模型的所有渠道都不接受请求中的图片、音频、文件或其他内容。',
  'The body is larger than the gateway accepts.': '请求体超过网关接受的大小。',
  'Another request used the same Idempotency-Key with another body, or is still running.':
    '另一个请求以不同内容使用了相同的 Idempotency-Key，或仍在处理中。',
  'The gateway does not know the conversation that the request continues.': '网关没有该请求要继续的会话。',
  'There is no such video job, or it belongs to another user.': '没有此视频任务，或它属于其他用户。',
  'The provider is still generating the video.': '供应商仍在生成视频。',
  'The provider no longer has the video.': '供应商已不再保存该视频。',
  'The gateway itself failed. Its log has a line with the same request ID.':
    '网关自身出错；日志中有相同请求 ID 的记录。',
  'The gateway could not reach its store or write its journal, so it accepted no request.':
    '网关无法访问数据库或写入流水，因此不接受请求。',
  'The gateway had no memory, disk space or connections left. Its log names the setting to change.':
    '网关的内存、磁盘空间或连接数已用尽；日志中写明了应调整的设置。',
  'The gateway was stopping or restarting.': '网关正在停止或重启。',
  'The provider refused the request itself, so no other channel was tried.':
    '供应商拒绝了请求本身，因此未尝试其他渠道。',
  'The gateway rejected the request with {}: {}': '网关以 {} 拒绝了请求：{}',
  'The request failed with {}: {}': '请求失败（{}）：{}',
  'The client disconnected before the provider answered.': '供应商响应之前，客户端已断开连接。',
  'The request succeeded after {} and was charged {}.': '请求在 {} 后成功，扣费 {}。',
  'Attempt {}: channel {} was still working when the client disconnected after {}.':
    '第 {} 次尝试：渠道 {} 仍在处理时，客户端在 {} 后断开连接。',
  'Attempt {}: channel {} was not sent, because the client disconnected.':
    '第 {} 次尝试：渠道 {} 未发送，因为客户端已断开连接。',
  'Attempt {}: channel {} refused the connection after {}.': '第 {} 次尝试：渠道 {} 拒绝连接，用时 {}。',
  'Attempt {}: channel {} gave no valid answer after {}: {}.':
    '第 {} 次尝试：渠道 {} 没有有效响应，用时 {}：{}。',
  'Attempt {}: channel {} answered {} after {}.': '第 {} 次尝试：渠道 {} 返回 {}，用时 {}。',
  'Attempt {}: channel {} answered {} after {}. "{}"': '第 {} 次尝试：渠道 {} 返回 {}，用时 {}：“{}”',
  'Channel {} failed. {}': '渠道 {} 请求失败。{}',
  'Its provider rejected the key ({}).': '供应商拒绝了密钥（{}）。',
  'Its provider reported that the credit is used up ({}).': '供应商报告余额已用尽（{}）。',
  'Its provider limits the rate ({}).': '供应商限流（{}）。',
  'Its provider limits the rate ({}) and asked to wait {} s.': '供应商限流（{}），要求等待 {} 秒。',
  'Its provider does not know the model "{}", or the base URL is wrong ({}).':
    '供应商没有模型“{}”，或渠道地址有误（{}）。',
  'Its provider does not know the model "{}", to which the channel maps "{}" ({}).':
    '供应商没有模型“{}”，该渠道把“{}”重定向到了它（{}）。',
  'Its provider failed ({}).': '供应商出错（{}）。',
  'Its provider refused the request itself ({}), so no other channel was tried.':
    '供应商拒绝了请求本身（{}），因此未尝试其他渠道。',
  'Nothing accepts connections at {} ({}).': '{} 上没有服务接受连接（{}）。',
  'The host name of {} is unknown ({}).': '{} 的主机名无法解析（{}）。',
  'The TLS certificate of {} is not valid ({}).': '{} 的 TLS 证书无效（{}）。',
  'It did not answer within {} ({}).': '在 {} 内没有响应（{}）。',
  'The exchange with {} failed ({}).': '与 {} 的通信失败（{}）。',
  'Channel {} was cooling down. {}': '渠道 {} 当时正在冷却。{}',
  'Channel {} was cooling down after a failure.': '渠道 {} 请求失败后正在冷却。',
  'The cooldown began with request {} at {}.': '冷却始于请求 {}（{}）。',
  'Channel {} had failed before, and another request was its trial request.':
    '渠道 {} 此前失败过，当时另一个请求正在试探。',
  'Channel {} had reached a rate limit of its own.': '渠道 {} 达到了自身的速率限制。',
  'Channel {} had no enabled key.': '渠道 {} 没有已启用的密钥。',
  'Channel {} was disabled.': '渠道 {} 当时已禁用。',
  'Channel {} does not offer what the request needs.': '渠道 {} 不支持请求所需的功能。',
  'Channel {} has no price for the model.': '渠道 {} 上该模型未定价。',
  'Channel {} was skipped: {}.': '渠道 {} 被跳过：{}。',
  'Channel {} lists the model, but it is disabled now.': '渠道 {} 提供该模型，但目前已禁用。',
  'Channel {} is disabled now.': '渠道 {} 目前已禁用。',
  'Channel {} is auto-disabled now.': '渠道 {} 目前被自动禁用。',
  'Channel {} is auto-disabled now: {}': '渠道 {} 目前被自动禁用：{}',
  'Channel {} is enabled now and not cooling down.': '渠道 {} 目前已启用，未在冷却。',
  'Channel {} is cooling down until {}. Then it waits for a trial request.':
    '渠道 {} 冷却中，至 {} 结束，之后等待试探请求。',
  'The cooldown of channel {} has ended. It waits for a trial request.':
    '渠道 {} 的冷却已结束，等待试探请求。',
  'Wait until then, or add another key or a second channel.': '请等待冷却结束，或添加另一个密钥或渠道。',
  'After {} rejections of the key in a row, the gateway disables the channel.':
    '密钥连续被拒绝 {} 次后，网关会禁用该渠道。',
  'Token {} may use the model now.': '令牌 {} 现在可以使用该模型。',
  'Token {} may use only these models: {}.': '令牌 {} 只能使用这些模型：{}。',
  'Token {} may be used from any address now.': '令牌 {} 现在可以从任何地址使用。',
  'Token {} may be used only from these addresses: {}.': '令牌 {} 只能从这些地址使用：{}。',
  'Token {} is disabled now.': '令牌 {} 目前已禁用。',
  'Token {} expired at {}.': '令牌 {} 已于 {} 过期。',
  'Token {} is valid now.': '令牌 {} 现在有效。',
  'User {} is disabled now.': '用户 {} 目前已禁用。',
  'The limit is set on user {}.': '该限制设置在用户 {} 上。',
  'The limit is set on token {}.': '该限制设置在令牌 {} 上。',
  'The balance of user {} does not suffice; the token is not the reason.': '用户 {} 的余额不足；与令牌无关。',
  'The quota of token {} does not suffice.': '令牌 {} 的额度不足。',
  'The quota suffices for such a request now.': '目前的额度足够此类请求。',
  'User {} has {} left now.': '用户 {} 目前剩余 {}。',
  'Token {} has {} left now.': '令牌 {} 目前剩余 {}。',
  'User {} has no limit of its own.': '用户 {} 没有额度限制。',
  'Token {} has no limit of its own.': '令牌 {} 没有自己的额度限制。',
  'This is the only request with {} in the last 24 hours.': '这是最近 24 小时内唯一一个 {} 请求。',
  'This is the newest of {} requests with {} in the last 24 hours.':
    '这是最近 24 小时内 {} 个 {} 请求中最新的一个。',
  'The provider does not know the model, or what the request refers to.':
    '供应商没有该模型，或没有请求所指的内容。',
  'The model has a price now.': '该模型现在已定价。',
  'The model still has no price.': '该模型仍未定价。',
  'No channel lists the model now.': '目前没有渠道提供该模型。',
  'No request in the log has this error. It has the following meaning.':
    '日志中没有出现此错误的请求。其含义如下：',
  'The owner of the token can {}.': '令牌的所有者可以{}。',
  'An administrator can {}.': '管理员可以{}。',
  'set a price for the model': '为该模型定价',
  'add credit to the user': '为用户充值',
  'raise the quota of the token': '提高令牌额度',
  'raise the limits of the token': '提高令牌的限制',
  'raise the limits of the user': '提高用户的限制',
  'add the model to the list of the token': '将该模型加入令牌的列表',
  'add the address to the list of the token': '将该地址加入令牌的列表',
  'enable the token': '启用令牌',
  'extend the token': '延长令牌的有效期',
  'enable the user': '启用用户',
  'make the model available again': '使该模型恢复可用',
  'add a channel that serves the model': '添加提供该模型的渠道',
}

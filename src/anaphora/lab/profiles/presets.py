"""Profiles that are there without being added; a profile of one's own with the same name takes its place."""

from anaphora.lab.profiles.profile import Profile

PRESETS = {
    preset.name: preset
    for preset in (
        Profile(name="local", base_url="http://127.0.0.1:8000"),
        Profile(
            name="taotoken",
            base_url="https://taotoken.net/api",
            base_url_env="TAOTOKEN_BASE_URL",
            api_key_env="TAOTOKEN_API_KEY",
        ),
        Profile(name="openai", base_url="https://api.openai.com/v1", api_key_env="OPENAI_API_KEY", kind="openai"),
        Profile(
            name="deepseek", base_url="https://api.deepseek.com/v1", api_key_env="DEEPSEEK_API_KEY", kind="deepseek"
        ),
    )
}
